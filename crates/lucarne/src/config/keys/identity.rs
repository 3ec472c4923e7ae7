//! Identity of a log: keys that `defaults` must not have.

use lucarne_settings::form::{Date, Shape};
use lucarne_settings::{Key, Table};

use super::SUNLIGHT;

pub(crate) static TABLE: Table = Table::of(&[
    &SHORTNAME,
    &DESCRIPTION,
    &INCEPTION,
    &SUBMISSIONPREFIX,
    &MONITORINGPREFIX,
    &SECRET,
    &SIGNER,
    &PUBLICKEY,
    &LOCALDIRECTORY,
    &S3KEYPREFIX,
    &GCSKEYPREFIX,
    &AZUREKEYPREFIX,
    &KNOWN_CHECKPOINTS,
    &CACHE,
    &NAME,
    &SEED,
]);

pub(crate) static SHORTNAME: Key<Shape> = Key::new(
    "shortname",
    Shape::Text,
    "required",
    "Name in metrics, messages and pages. Letters, digits, `-`, `_`, `.`; unique.",
)
.beside(SUNLIGHT);

pub(crate) static DESCRIPTION: Key<Shape> = Key::new(
    "description",
    Shape::Text,
    "the origin",
    "Free text for `log.v3.json` and the pages.",
);

pub(crate) static INCEPTION: Key<Date> = Key::new(
    "inception",
    Date,
    "none",
    "The day (UTC) on which `serve` creates the log if it does not exist. On any other day, a \
     missing log is an error, so that a mistyped path never forks a log. Without this key, use \
     `lucarne init`.",
)
.beside(SUNLIGHT);

pub(crate) static SUBMISSIONPREFIX: Key<Shape> = Key::new(
    "submissionprefix",
    Shape::Text,
    "required",
    "URL for submissions. Without scheme and trailing slash, it is the log's origin, and cannot \
     change after the log is created. Unlike elsewhere, a port and `http://` are allowed. [Some \
     URLs](#prefixes) are refused.",
)
.beside(SUNLIGHT);

pub(crate) static MONITORINGPREFIX: Key<Shape> = Key::new(
    "monitoringprefix",
    Shape::Text,
    "`submissionprefix`",
    "URL for reads. The host can differ from that of `submissionprefix`: Lucarne serves both.",
)
.beside(SUNLIGHT);

pub(crate) static SECRET: Key<Shape> = Key::new(
    "secret",
    Shape::Secret,
    "this, or `signer`",
    "The key: a seed of 32 bytes (`lucarne keygen`, Sunlight's derivation), the seed in base64, or \
     PEM with an EC P-256 key as for TesseraCT. A file with mode 0600 outside the public files of \
     a log, or [another source](#sources-of-keys).",
)
.beside(SUNLIGHT);

pub(crate) static SIGNER: Key<Shape> = Key::new(
    "signer",
    Shape::Text,
    "none",
    "The socket of a [signer](../how-to/signer.md) that has the key, instead of `secret`: \
     `/run/lucarne-signer/signer.sock`. While the signer is unavailable, the log accepts no \
     submissions.",
);

pub(crate) static PUBLICKEY: Key<Shape> = Key::new(
    "publickey",
    Shape::Text,
    "required with `signer`",
    "The log's public key: base64 of its DER, or a PEM file. The log verifies the signatures of \
     the signer with it.",
);

pub(crate) static LOCALDIRECTORY: Key<Shape> = Key::new(
    "localdirectory",
    Shape::Text,
    "this, or a bucket",
    "Directory of the log's data, in the layout of the static CT API.",
)
.beside(SUNLIGHT);

pub(crate) static S3KEYPREFIX: Key<Shape> = Key::new(
    "s3keyprefix",
    Shape::Text,
    "none",
    "With `s3bucket`: literal prefix of each object key: `2026h1/`, with its slash.",
)
.beside(SUNLIGHT);

pub(crate) static GCSKEYPREFIX: Key<Shape> = Key::new(
    "gcskeyprefix",
    Shape::Text,
    "none",
    "With `gcsbucket`: the same.",
);

pub(crate) static AZUREKEYPREFIX: Key<Shape> = Key::new(
    "azurekeyprefix",
    Shape::Text,
    "none",
    "With `azurecontainer`: the same.",
);

pub(crate) static KNOWN_CHECKPOINTS: Key<Shape> = Key::new(
    "known_checkpoints",
    Shape::List(&Shape::Text),
    "none",
    "URLs of the log's newest checkpoint in other places (a mirror, a witness, a CDN with its own \
     cache), or the prefixes above these URLs. Each start [compares them](#known-checkpoints) \
     with the log.",
);

pub(crate) static CACHE: Key<Shape> = Key::new(
    "cache",
    Shape::Text,
    "`<localdirectory>/.lucarne/cache`",
    "Directory for data that can be lost: the dedup index, the index of leaf hashes, CCADB's \
     roots, cached tiles of a bucket. Required for a log in a bucket. If the path is a file \
     (Sunlight's cache), the log uses `<cache>.lucarne`.",
)
.beside(SUNLIGHT);

pub(crate) static NAME: Key<Shape> = Key::new(
    "name",
    Shape::Text,
    "–",
    "Sunlight's deprecated name of the log; accepted if it is the origin.",
)
.beside(SUNLIGHT);

pub(crate) static SEED: Key<Shape> = Key::new(
    "seed",
    Shape::Secret,
    "–",
    "Sunlight's old name of `secret`.",
)
.beside(SUNLIGHT);
