"""What a person gets wrong on a command line: one sentence that names it, and nothing is written.

Values of options by themselves: test_option_values; files of people: test_people; studies: tests/schemas.
"""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from support.studies import SMALL

from ldpbeam.command_line.catalogue import COMMANDS
from ldpbeam.errors import UserError

MIXED = """\
study: mixed
attributes:
  x:
    domain: {numeric: [0, 1]}
    services: {a: {mechanism: piecewise, epsilon: 1.0}}
    estimates: {mean: {estimator: ivw}}
  v:
    domain: {coordinates: [north, east, up], values: [-10, 10]}
    services: {a: {mechanism: piecewise, epsilon: 2.0}}
    estimates: {mean: {estimator: ivw}}
  basket:
    domain: {keys: [milk, bread], values: [0, 5]}
    services: {a: {mechanism: privkv, epsilon: 4.0}}
    estimates: {all: {estimator: key_value}}
"""
FILES = {
    "small.yaml": SMALL,
    "hours.yaml": SMALL + "windows: {size: 1h}\n",
    "regions.yaml": SMALL + "groups: {field: region}\n",
    "mixed.yaml": MIXED,
    "lasting.yaml": SMALL.replace("piecewise, epsilon: 1.0", "piecewise, epsilon: 1.0, lifetime_epsilon: 2"),
    "wrong.yaml": SMALL.replace("buckets: 8", "buckets: 1"),
    "in.jsonl": '{"user_id": "u", "attribute": "x", "service": "a", "payload": 0.5}\n',
    "people.csv": "value,n,key,user\n0.1,1,milk,ann\n0.2,2,tea,bob\n",
    "outside.csv": "value\n500\n-3\n",
    "short.key": "k" * 15,
    "long.key": "k" * 16,
    "table.csv": "price,when\n" + "".join(f"{n},2026-01-01 10:00:00\n" for n in range(50)),
    "ids.csv": "id\n" + "".join(f"u{n}\n" for n in range(1001)),
    "many.csv": "word\n" + "".join(f"u{n}\n" for n in range(1001)),
    "elsewhere/one.jsonl": "[1]\n",
}
SUBSCRIPTION = "projects/ldp-test/subscriptions/reports"
#: What a command line has, unless a row says otherwise: of two equal options the last one counts.
GIVEN = {
    "estimate": "--study small.yaml --input in.jsonl --output out",
    "stream": "--study hours.yaml --output out",
    "perturb": "--study small.yaml --attribute x --input people.csv --output out",
    "rollup": "--study small.yaml --statistics nothing* --output out",
    "evaluate": "--study small.yaml --no-figures --output out",
    "plan": "--study mixed.yaml --users 10 --attribute x",
}
ROWS: dict[str, list[tuple[str, str]]] = {
    "": [
        ("explain --studdy x", "unknown option --studdy; did you mean --study?"),
        ("explain --study small.yaml extra", "unexpected argument 'extra'"),
        ("explain small.yaml", "--mechanisms --estimators --schema is required; write --study small.yaml"),
        ("explain", "--study --counts --registry --mechanisms --estimators --schema is required"),
        ("explain --schema --mechanisms", "argument --mechanisms: not allowed with argument --schema"),
        ("estimate small.yaml in.jsonl", "required: --study, --output; write --study small.yaml"),
        ("estimate --study small.yaml in.jsonl --output o", "; files of reports are named with --input"),
        ("explain --study foo://study.yaml", "foo://study.yaml: cannot be read: "),
        # A misspelt option is named before the one that is missing for it.
        ("estimate --study x --input y --ouput z", "unknown option --ouput; did you mean --output?"),
        ("estimate --study x --input y", "the following arguments are required: --output"),
        ("doctor --runner spark", "'spark' (choose from 'local', 'direct', 'flink', 'dataflow')"),
        ("doctor --flink-master localhost:1", "--flink-master: it is for --runner flink, and this is local"),
        ("vectors --mechanism square_wav", "of mechanism 'square_wav'; did you mean 'square_wave'?"),
        ("show out", "out: there is no such folder"),
        ("diff out", "diff compares two folders"),
        ("diff out --groups north north --windows a b", "not allowed with argument"),
    ],
    "estimate": [
        ("--job_name x", "--job_name: it is an option of Beam: name an engine, as in --runner direct"),
        ("--runner direct --job_nme x", "unknown option --job_nme; did you mean --job_name?"),
        # No abbreviation is taken.
        ("--keep-bad-record", "unknown option --keep-bad-record; did you mean --keep-bad-records?"),
        ("--again out", "name one thing to read: --input FILE, --again FOLDER, --counts FILE, or"),
        ("--schemas report.avsc", "--schemas report.avsc: write the address of a registry, as in http://"),
        ("--schemas 7=nothing.avsc", "nothing.avsc: cannot be read"),
        ("--schemas 7=small.yaml", "--schemas: the schema 7: Expecting value"),
        ("--schemas 7=in.jsonl", "--schemas: the schema 7: it is not the schema of a record"),
        ("--schemas 7=in.jsonl --schemas 7=in.jsonl", "--schemas 7=in.jsonl: the id 7 is given twice"),
        ("--schemas http://a --schemas http://b", "--schemas http://b: name one registry"),
        ("--schemas http://127.0.0.1:1/x", "--schemas: the schema registry at http://127.0.0.1:1/x does not"),
        ("--shards 0", "--shards 0: from 1 to 65,536"),
        ("--max-bad-fraction 2", "--max-bad-fraction 2.0: from 0 to 1"),
        ("--flink-master localhost:1", "--flink-master: it is for --runner flink, and this is local"),
        ("--runner flink", "--runner flink: name a cluster, as in --flink-master localhost:8081; "),
        ("--runner flink --flink-master [local]", "--flink-master [local]: no cluster is started for a run"),
        ("--parallelism 2", "--parallelism: it is an option of Beam: name an engine"),
        ("--runner direct --parallelism few", "--parallelism few: a whole number"),
        ("--attribute y", "--attribute y: the study has no such attribute; there are: x"),
        ("--service c", "--service c: the study has no such service; there are: a, b"),
        ("--truth people.csv", "--value-column is missing"),
        ("--truth nothing.csv --value-column value", "nothing.csv: No such file or directory"),
        ("--value-column v --time-column t", "--value-column, --time-column: these name columns of the file"),
        ("--user-id-key-file nothing.key",
         "No such file or directory; openssl rand -out nothing.key 32 makes a new key"),
        ("--user-id-key-file short.key", "short.key: a key has 16 bytes or more, found 15"),
        ("--user-id-key-file long.key --keep-bad-records", "--keep-bad-records: bad records hold the "
         "original user ids, which --user-id-key-file is meant to hide"),
        ("--column user_id", "--column user_id: write our name and theirs, as in user_id=uid"),
        ("--column usr_id=a", "--column: "),
        ("--input in.jsonl none*.avro", "--input none*.avro: no file has this name"),
        ("--input [v1]/*.jsonl", "no file has this name; in a pattern, [[] stands for a bracket"),
        ("--study wrong.yaml", "wrong.yaml:5: buckets of attribute x: "),
        ("--runner moon", "--runner moon: no such engine; there are: local, direct, flink, dataflow, and "),
        ("--runner flnk", "--runner flnk: no such engine; did you mean 'flink'?"),
        ("--runner os.path.join", "--runner os.path.join: "),
        ("--output ''", "--output '': "),
        ("--output foo://x", "--output foo://x: "),
        ("--kafka localhost:9092 --topic t", "name one thing to read: --input FILE, --again FOLDER, "),
        ("--topic t", "--topic goes with --kafka BROKERS --topic T"),
        ("--study foo://x", "foo://x: cannot be read: a file is on this machine, or its name begins with gs://"),
    ],
    "stream": [
        ("--study small.yaml --input in/*", "small.yaml: a stream needs windows, as in windows: {size: 1h}"),
        ("", "name one thing to read: --subscription, --topic (projects/P/topics/T), --input, or --kafka"),
        (f"--subscription {SUBSCRIPTION} --input in/*", "name one thing to read: "),
        ("--input foo://in/*", "--input foo://in/*: "),
        ("--input in/* --runner moon", "--runner moon: a stream runs on this machine, without an engine"),
        ("--kafka localhost:9092 --topic t --input in/*", "name one thing to read: "),
        ("--kafka localhost:9092", "--kafka goes with --topic T"),
        ("--kafka localhost --topic t", "--kafka localhost: write it as HOST:PORT"),
        ("--kafka localhost:9092 --topic projects/p/topics/t", "--topic projects/p/topics/t: a topic"),
        ("--kafka u:p@localhost:9092 --topic t", "--kafka ...@localhost:9092: write it as HOST:PORT"),
        ("--kafka localhost:9092 --topic t --from-offset soon",
         "write a time with its zone, as in 2026-11-20T10:00:00Z, or a date, or earliest, or latest"),
        ("--kafka localhost:9092 --topic t --kafka-config in.jsonl", "in.jsonl, line 1: write name=value"),
        ("--input in/* --publish-to kafka://localhost:9092", "write it as kafka://HOST:PORT/TOPIC"),
        ("--input in/* --publish-to kafka://u:p@localhost:9092/t",
         "--publish-to kafka://...@localhost:9092/t: write it as kafka://HOST:PORT/TOPIC, and users and"),
        ("--input in/* --publish-to kafka://localhost:1/t --kafka-config nothing",
         "--kafka-config nothing: No such file"),
        ("--input in/* --publish-to projects/ldp-test/topics/t --kafka-config in.jsonl",
         "--kafka-config goes with --kafka BROKERS --topic T"),
        ("--input in/* --group g", "--group goes with --kafka BROKERS --topic T"),
        ("--input in/* --metrics-host ::1", "--metrics-host ::1: name a port, as in --metrics-port 9464"),
        ("--input in/* --metrics-port 65536", "--metrics-port 65536: a port is a number from 1 to 65535"),
    ],
    "perturb": [
        ("", "--value-column is missing: which column has the true values?"),
        ("--value-column value --weight-column n --user-column user", "leave out --user-column"),
        ("--value-column value --start 2199-12-31T23:59:00Z --spread 2h", "lie in 2200 or later"),
        ("--value-column value --services bb", "--services bb: did you mean 'b'? there are a, b"),
        ("--value-column value --versions a=new", "--versions a: no field tells versions of this "),
        ("--value-column value --study hours.yaml", "give --time-column, or --start and --spread"),
        ("--value-column value --study regions.yaml",
         "the study has groups, by the field 'region' of reports: add --group-column COLUMN"),
        ("--value-column value --group-column key", "--group-column: the study has no groups"),
        ("--value-column value --key-column key", "--key-column: the attribute has no keys"),
        ("--value-column value --input outside.csv", "every value lies outside of the domain of 'x'"),
        ("--value-column value --output in.jsonl", "--output in.jsonl: a folder is needed"),
        ("--study lasting.yaml --value-column value --user-column user",
         "--services a: its clients remember their noise"),
        ("--value-column value --device-key-file long.key", "no service has a lifetime_epsilon"),
        ("--study lasting.yaml --value-column value --user-column user --device-key-file short.key",
         "a key has 16 bytes or more, found 15"),
        ("--study mixed.yaml --attribute v --value-column value",
         "--value-column: a vector's values are in the columns of its names (north, east, up"),
        ("--study mixed.yaml --attribute basket --value-column value --key-column key",
         "--user-column is missing: a person has a row for each key"),
        ("--study mixed.yaml --attribute basket --value-column value --user-column user",
         "--key-column is missing: a person has a row for each key"),
        ("--study mixed.yaml --attribute basket --value-column value --key-column key --user-column user "
         "--weight-column n", "a row with a --weight-column is several people"),
    ],
    "rollup": [
        ("", "nothing*: there is no such file"),
        ("--window 0s", "--window 0s: it must be above 0"),
        ("--processes 0", "--processes 0: from 1 to 1,024"),
    ],
    "evaluate": [
        ("--value-column m", "--value-column: these name columns of the file in --data"),
        ("--data none.csv", "--value-column is missing"),
        ("--data outside.csv --value-column value", "every value lies outside of the domain of 'x'"),
        ("--study mixed.yaml --attribute x --epsilons 99",
         "epsilon 99: epsilon of service a of attribute x: "),
        ("--trials 0", "--trials 0: from 1"),
        ("--seed -1", "--seed -1: 0 or above"),
        ("--estimators em,emm", "did you mean 'em'"),
        ("--mechanisms piecewise,piecewice", "did you mean 'piecewise'"),
        ("--mechanisms piecewise --epsilons 99", "mechanism piecewise, epsilon 99: epsilon of service"),
        ("--study mixed.yaml", "the attribute is missing: the study has x, v, basket"),
        ("--output in.jsonl", "--output in.jsonl: a folder is needed"),
    ],
    "plan": [
        ("--users 0", "--users 0: from 1 to"),
        ("--users 20,000", "--users 20,000: a whole number in digits alone, such as 20000"),
        ("--error 0", "--error 0: a number above 0"),
        ("--attribute y", "--attribute y: the study has no such attribute; there are: x, v, basket"),
    ],
    "init": [
        ("", "--attribute is missing: as in --attribute minutes"),
        ("table.csv", "--attribute is missing: name one of the columns price, when"),
        ("--attribute x", "--range or --categories is missing, as in --range 0 180, or a file"),
        ("--attribute x --range 0 1 -o wrong.yaml", "wrong.yaml: it exists, and is not overwritten"),
        ("table.csv --attribute Price", "there is no column 'Price'; did you mean 'price'?"),
        ("table.csv --attribute when", "has values of type timestamp"),
        ("ids.csv --attribute id", "column 'id' has the ids of people, not their answers"),
        ("many.csv --attribute word", "column 'word' has 1,001 different values; categories are 2 to 1,000"),
        ("--attribute x --range 1 0", "low < high"),
        ("--attribute x --range 0 1 --categories a b", "--range and --categories: the attribute is a "),
        ("--attribute x --range 0 1 --groups user_id", "field of groups: this is a column of every"),
        ("--attribute x --range 0 1 --groups x", "--groups x: this column is perturbed, so reports "),
        ("table.csv --attribute price --groups When",
         "--groups When: the file has no such column; did you mean 'when'?"),
        ("--attribute x --range 0 1 --services a=grr", "is for categories"),
        ("--attribute x --range 0 1 --name 'a b'", "names have letters"),
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that command lines name."""
    folder = tmp_path_factory.mktemp("refusals")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
        (folder / name).chmod(0o600)
    return folder


@pytest.fixture(autouse=True)
def unchanged(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The test runs in the folder, and leaves it as it was."""
    monkeypatch.chdir(folder)
    yield
    assert {str(path) for path in Path().rglob("*") if path.is_file()} == set(FILES)
    assert all((folder / name).read_text() == text for name, text in FILES.items())


def refused(line: str) -> str:
    """The sentence with which a command line is refused."""
    name, *arguments = shlex.split(line)
    with pytest.raises(UserError) as caught:
        COMMANDS[name].run(arguments)
    return str(caught.value)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        pytest.param(f"{name} {GIVEN.get(name, '')} {row}".strip(), sentence, id=f"{name} {row}"[:60].strip())
        for name, rows in ROWS.items()
        for row, sentence in rows
    ],
)
def test_a_command_line_that_cannot_be_is_refused_with_a_sentence(line: str, sentence: str) -> None:
    said = refused(line)
    assert sentence in said
    assert len(said.removesuffix(f"\nSee ldpbeam {line.split()[0]} --help").splitlines()) == 1


# The same through the program: exit code 2, the sentence alone, and nothing on stdout.
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("estimate --study wrong.yaml --input in.jsonl --output out",
         r"ldpbeam: wrong\.yaml:5: buckets of attribute x: .*\n"),
        ("stream --study hours.yaml --input in/* --output out --max-disorder some",
         r"ldpbeam: --max-disorder some: write a whole number and a unit, .*\n"),
        (f"estimate --study small.yaml --input in.jsonl --output {'x' * 300}",
         r"ldpbeam: File name too long: 'x*.*'\n"),
        ("explain --json --study wrong.yaml", r"ldpbeam: wrong\.yaml:5: buckets of attribute x: .*\n"),
        ("explian", r"ldpbeam: unknown command 'explian'; did you mean 'explain'\?\n"),
        ("frobnicate", r"ldpbeam: unknown command 'frobnicate'; there are: init, explain, .*\n"),
    ],
)  # fmt: skip
def test_the_program_says_one_sentence_and_ends_with_2(line: str, said: str, command: Any) -> None:
    ran = command(*shlex.split(line))
    assert (ran.code, ran.out) == (2, "")
    assert re.fullmatch(said, ran.err)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--again in.jsonl", "in.jsonl: it is a file, or an empty folder; name the --output of"),
        ("--again elsewhere", "elsewhere: it has no run.json; name the --output of ldpbeam estimate"),
        ("--kafka localhost:9092 --topic t/u", "--topic t/u: a topic of Kafka has 1 to 249 letters"),
        ("--kafka localhost:9092 --topic t --to-offset later", "--to-offset later: write a time"),
    ],
)
def test_a_span_of_a_topic_that_cannot_be_is_refused(options: str, sentence: str) -> None:
    assert sentence in refused(f"estimate --study small.yaml --output out {options}")


def test_brokers_that_cannot_be_reached_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    monkeypatch.setattr("ldpbeam.inputs.kafka_brokers.BROKER_SECONDS", 0.5)
    read = "estimate --study small.yaml --output out --kafka localhost:1 --topic t"
    # Who is refused at once is not told of a time that nobody waited.
    assert re.match("--kafka localhost:1: .*Connection refused", refused(read))
    written = f"stream {GIVEN['stream']} --input in/* --publish-to kafka://localhost:1/t"
    assert re.match("--publish-to localhost:1: .*Connection refused", refused(written))
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    assert refused(read) == "Kafka needs confluent-kafka: pip install 'ldpbeam[kafka]'"


def test_pubsub_that_cannot_be_reached_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("google.cloud.pubsub_v1", reason="google-cloud-pubsub is not installed")
    line = f"stream {GIVEN['stream']} --subscription {SUBSCRIPTION}"
    with monkeypatch.context() as patch:
        patch.setenv("PUBSUB_EMULATOR_HOST", "localhost:1")
        patch.setattr("ldpbeam.pipelines.sources.pubsub.SERVER_SECONDS", 0.5)
        said = refused(line)
        assert said.startswith("the server at localhost:1 (PUBSUB_EMULATOR_HOST): failed to connect")
    monkeypatch.delenv("PUBSUB_EMULATOR_HOST", raising=False)
    with monkeypatch.context() as patch:
        patch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "nothing.json")
        said = refused(line)
        assert said.startswith("Google Pub/Sub: ") and "nothing.json" in said
    monkeypatch.delattr("google.cloud.pubsub_v1")
    monkeypatch.setitem(sys.modules, "google.cloud.pubsub_v1", None)
    assert refused(line) == "Pub/Sub needs google-cloud-pubsub: pip install 'ldpbeam[pubsub]'"
