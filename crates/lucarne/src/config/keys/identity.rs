//! Identity of a log: keys that `defaults` must not have.

use lucarne_settings::form::{Date, Shape};
use lucarne_settings::section;

use super::SUNLIGHT;

section! {
    /// Name in metrics, messages and pages. Letters, digits, `-`, `_`, `.`; unique.
    #[beside(SUNLIGHT)]
    shortname: Shape = Shape::Text, "required";

    /// Free text for `log.v3.json` and the pages.
    description: Shape = Shape::Text, "the origin";

    /// The day (UTC) on which `serve` creates the log if it does not exist. On any other day, a
    /// missing log is an error, so that a mistyped path never forks a log. Without this key, use
    /// `lucarne init`.
    #[beside(SUNLIGHT)]
    inception: Date = Date, "none";

    /// URL for submissions. Without scheme and trailing slash, it is the log's origin, and cannot
    /// change after the log is created. Unlike elsewhere, a port and `http://` are allowed. [Some
    /// URLs](#prefixes) are refused.
    #[beside(SUNLIGHT)]
    submissionprefix: Shape = Shape::Text, "required";

    /// URL for reads. The host can differ from that of `submissionprefix`: Lucarne serves both.
    #[beside(SUNLIGHT)]
    monitoringprefix: Shape = Shape::Text, "`submissionprefix`";

    /// The key: a seed of 32 bytes (`lucarne keygen`, Sunlight's derivation), the seed in base64,
    /// or PEM with an EC P-256 key as for TesseraCT. A file with mode 0600 outside the public files
    /// of a log, or [another source](#sources-of-keys).
    #[beside(SUNLIGHT)]
    secret: Shape = Shape::Secret, "this, or `signer`";

    /// The socket of a [signer](../how-to/signer.md) that has the key, instead of `secret`:
    /// `/run/lucarne-signer/signer.sock`. While the signer is unavailable, the log accepts no
    /// submissions.
    signer: Shape = Shape::Text, "none";

    /// The log's public key: base64 of its DER, or a PEM file. The log verifies the signatures of
    /// the signer with it.
    publickey: Shape = Shape::Text, "required with `signer`";

    /// Directory of the log's data, in the layout of the static CT API.
    #[beside(SUNLIGHT)]
    localdirectory: Shape = Shape::Text, "this, or a bucket";

    /// Literal prefix of each object key in `s3bucket`: `2026h1/`, with its slash.
    #[beside(SUNLIGHT)]
    s3keyprefix: Shape = Shape::Text, "none";

    /// The same in `gcsbucket`.
    gcskeyprefix: Shape = Shape::Text, "none";

    /// The same in `azurecontainer`.
    azurekeyprefix: Shape = Shape::Text, "none";

    /// URLs of the log's newest checkpoint in other places (a mirror, a witness, a CDN with its own
    /// cache), or the prefixes above these URLs. Each start [compares them](#known-checkpoints)
    /// with the log.
    known_checkpoints: Shape = Shape::List(&Shape::Text), "none";

    /// Directory for data that can be lost: the dedup index, the index of leaf hashes, CCADB's
    /// roots, cached tiles of a bucket. Required for a log in a bucket. If the path is a file
    /// (Sunlight's cache), the log uses `<cache>.lucarne`.
    #[beside(SUNLIGHT)]
    cache: Shape = Shape::Text, "`<localdirectory>/.lucarne/cache`";

    /// Sunlight's deprecated name of the log; accepted if it is the origin.
    #[beside(SUNLIGHT)]
    name: Shape = Shape::Text, "–";

    /// Sunlight's old name of `secret`.
    #[beside(SUNLIGHT)]
    seed: Shape = Shape::Secret, "–";
}
