/** When the turns begin of which standard input has the panel, the user id and the time. */

import { readFileSync } from "node:fs";

import { turn } from "../../clients/javascript/index.js";

const asked = JSON.parse(readFileSync(0, "utf-8"));
const turns = await Promise.all(asked.map(({ panel, user_id, time }) => turn(panel, user_id, time)));
console.log(JSON.stringify(turns));
