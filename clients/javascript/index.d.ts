/** A client of ldpbeam: it perturbs a value on the device, and writes the report as a line of JSON. */

/** The ends of a range of numbers, low < high, between 1e-100 and 1e100 wide. */
export type Range = readonly [low: number, high: number];

/** The values are low, low + step, ..., high, 4096 at most; a client rounds to the nearest, and halves up. */
export type Step = number;

/** Two different names or more, or how many there are: then they are called 0, 1, 2 ... */
export type Names = readonly string[] | number;

/** Values have a step, or noise is even on a scale: the logarithm of a range above 0, or of 1 + x from 0 on. */
export type Even =
  | { readonly step?: Step; readonly scale?: undefined }
  | { readonly step?: undefined; readonly scale: "log" | "log1p" };

export type NumericDomain =
  | (Even & { readonly numeric: Range })
  /** Ascending numbers from low to high, at equal distances on the scale that is perturbed. */
  | { readonly edges: readonly number[]; readonly step?: undefined; readonly scale?: undefined };
export interface CategoriesDomain {
  readonly categories: Names;
  readonly step?: undefined;
  readonly scale?: undefined;
}
export interface KeysDomain {
  readonly keys: Names;
  readonly values: Range;
  readonly step?: undefined;
  readonly scale?: undefined;
}
export type VectorDomain = Even & {
  readonly coordinates: Names;
  readonly values: Range;
};

interface Named<Mechanism extends string, Options = Record<string, never>> {
  readonly mechanism: Mechanism;
  readonly options?: Readonly<Partial<Options>>;
}

type Oracle = "grr" | "olh" | "oue" | "sue" | "subset_selection" | "hadamard" | "block_hadamard";

export type NumericMechanism =
  | Named<"square_wave" | "piecewise" | "stochastic_rounding" | "hybrid" | "laplace">
  | Named<"gaussian", { delta: number; calibration: "analytic" | "classical" }>
  | Named<"general_wave", { top: number; half_width: number | null }>
  | Named<"discrete_square_wave", { bins: number }>
  | Named<"binned", { bins: number; oracle: "auto" | Oracle }>
  | Named<"hierarchy", { branching: number; leaves: number; oracle: "auto" | "grr" | "olh" | "hadamard" }>
  | Named<"haar", { leaves: number }>;

type Hashing = Named<"olh", { seeds: number | "any"; hashed: "index" | "text"; hashes: number }>;

/** P(report | value): a list for each report, with a number for each category; or a design of surveys with its p. */
export interface MatrixOptions {
  table: readonly (readonly number[])[] | null;
  design: "warner" | "crosswise" | "forced_response" | "kuk" | "unrelated" | null;
  p: number | readonly number[] | null;
  draws: number;
  surveyed: number | null;
}

export type CategoricalMechanism =
  | Named<"auto" | "grr" | "sue" | "hadamard">
  | Named<"oue", { own: number }>
  | Named<"subset_selection", { subset: number }>
  | Named<"block_hadamard", { most_blocks: number }>
  | Named<"matrix", MatrixOptions>
  | Hashing;

export type KeyValueMechanism =
  | Named<"privkv", { key_share: number }>
  | (Named<"privkvm", { key_share: number; round: number }> & {
      /** The last round's mean of each key, in the order of the keys; from round 2 on. */
      readonly means?: readonly number[];
    })
  | Named<"pckv_grr" | "pckv_ue" | "pckv_pm", { padding: number }>;

interface Asked<Domain> {
  /** The budget of one report, above 1e-6 and at most 20. */
  readonly epsilon: number;
  /** The attribute's domain, as in the study. */
  readonly domain: Domain;
}

/** A service of a study with fresh noise in each report, with the domain of its attribute. */
export type Service = { readonly lifetime_epsilon?: undefined } & (
  | (NumericMechanism & Asked<NumericDomain>)
  | (CategoricalMechanism & Asked<CategoriesDomain>)
  | (KeyValueMechanism & Asked<KeysDomain>)
  | (NumericMechanism & Asked<VectorDomain>)
);

/** What clients that remember their noise need, besides; `device_key` never leaves the device. */
interface Remembered {
  /** What all reports about one value reveal of it: above `epsilon`, and at most 20. */
  readonly lifetime_epsilon: number;
  /** 16 random bytes or more, which the device draws once and keeps. */
  readonly device_key: Uint8Array;
  /** The names in the study; `version` if the service has several. */
  readonly study: string;
  readonly attribute: string;
  readonly service: string;
  readonly version?: string;
}

/** A service with a lifetime epsilon. */
export type RememberedService =
  | (Hashing & Asked<CategoriesDomain> & Remembered & { readonly as_published?: boolean })
  | (Named<"grr" | "oue" | "sue"> &
      Asked<CategoriesDomain> &
      Remembered & { readonly as_published?: boolean })
  | (Named<"stochastic_rounding" | "square_wave" | "piecewise"> &
      Asked<NumericDomain> &
      Remembered & {
        /** As in the study, or the attribute's number of buckets; from 2 to 65536. */
        readonly memo_buckets: number;
      });

/** What a person has, by the domain of a service. */
export type ValueOf<S extends Service | RememberedService> = S extends { readonly domain: NumericDomain }
  ? number
  : S extends { readonly domain: CategoriesDomain }
    ? string | number
    : S extends { readonly domain: KeysDomain }
      ? Readonly<Record<string, number>>
      : S extends { readonly domain: VectorDomain }
        ? readonly number[]
        : never;

/** What is sent: a number, or bytes. */
export type Payload = number | Uint8Array;

/**
 * The client of a service: a function from a value, in the domain's units and names, to a report's payload.
 *
 * The optional draws of that function, numbers from [0, 1), are for tests only: without them a report draws from
 * the operating system's secure source. It throws a TypeError for a value that does not belong to the domain.
 *
 * Where clients remember their noise, the function returns a promise, and the draws are those of the instant step.
 *
 * @throws {TypeError} for a service that no study could have, and for one with a lifetime epsilon without a
 * device key.
 */
export function client<const S extends RememberedService>(
  service: S,
): (value: ValueOf<S>, draws?: readonly number[]) => Promise<Payload>;
export function client<const S extends Service>(
  service: S,
): (value: ValueOf<S>, draws?: readonly number[]) => Payload;

/** One report of a value to a service; for many values `client` computes the service's constants only once. */
export function report<const S extends RememberedService>(
  service: S,
  value: ValueOf<S>,
  draws?: readonly number[],
): Promise<Payload>;
export function report<const S extends Service>(
  service: S,
  value: ValueOf<S>,
  draws?: readonly number[],
): Payload;

/** The panel of a study with `panel` and windows that do not slide. */
export interface Panel {
  /** The names of the study and of the attribute that the reports are of. */
  readonly study: string;
  readonly attribute: string;
  /** How long a window lasts, in milliseconds. */
  readonly size: number;
  /** How many windows a period has. */
  readonly windows: number;
}

/**
 * The window that a user answers in the period of a time: when it begins and ends, in milliseconds since 1970.
 *
 * A report of another window is dropped, and spends epsilon for nothing. A UUID as text and its 16 bytes are the
 * same user.
 *
 * @throws {TypeError} for a panel that no study has, an id that is neither text nor 16 bytes, and no time.
 */
export function turn(
  panel: Panel,
  user_id: string | Uint8Array,
  time: Date | number,
): Promise<readonly [begin: number, end: number]>;

interface SomeReport {
  /** What `report` returned. */
  readonly payload: Payload;
  /** A Date, milliseconds since 1970, or RFC 3339 with a zone; where the study has windows or versions by time. */
  readonly event_time?: Date | number | string | undefined;
  /** At most 256 bytes, as every text below. */
  readonly attribute?: string | undefined;
  readonly service?: string | undefined;
  readonly report_id?: string | undefined;
  /** The study's group and version fields, which are text. */
  readonly [field: string]: Payload | Date | string | undefined;
}

/** A report, as ldpbeam reads it. */
export interface ReportRecord extends SomeReport {
  /** 1 to 256 bytes. */
  readonly user_id: string;
}

/** A report of nobody: the study, or its attribute, has `users: none`. */
export interface ReportWithoutUser extends SomeReport {
  readonly user_id?: undefined;
}

/**
 * A report as one line of JSON, without the line's end.
 *
 * @throws {TypeError} for a field that ldpbeam would refuse.
 */
export function line(record: ReportRecord, study?: { readonly users?: "ids" }): string;
/** A report of a study or an attribute with `users: none`. */
export function line(record: ReportWithoutUser, study: { readonly users: "none" }): string;

/** One client of a study that was not known when the program was compiled. */
export interface StudyClient {
  /** What `client` returns, for any value; a promise where clients remember their noise, so `await` it. */
  report(
    value: number | string | readonly number[] | Readonly<Record<string, number>>,
    draws?: readonly number[],
  ): Payload | Promise<Payload>;
  /**
   * What `line` writes, with the names of the attribute, the service and the version.
   *
   * @throws {TypeError} for a field that ldpbeam would refuse, and where one is missing that the study needs.
   */
  line(record: ReportRecord | ReportWithoutUser): string;
}

/**
 * The client of one service of a study.
 *
 * @param study the JSON that `ldpbeam explain --study FILE --json` prints, parsed
 * @param of which client, where the study has several, the device key of one that remembers its noise, and the
 * last round's mean of each key for `privkvm` from round 2 on
 * @throws {TypeError} for anything else than a study, and where not exactly one client is meant.
 */
export function fromStudy(
  study: unknown,
  of?: {
    readonly attribute?: string;
    readonly service?: string;
    readonly version?: string;
    readonly device_key?: Uint8Array;
    readonly means?: readonly number[];
  },
): StudyClient;
