//! Keys under `witness`.

use lucarne_settings::form::Shape;
use lucarne_settings::section;

use super::SUNLIGHT;

section! {
    /// Name of the witness in its cosignatures, such as `witness.example.com`. The keys are derived
    /// from the name and `secret`.
    #[beside(SUNLIGHT)]
    name: Shape = Shape::Text, "required";

    /// The seed of the keys: 32 bytes (`lucarne keygen --witness`, Sunlight's derivation), or their
    /// base64. A file with mode 0600, or [another source](#sources-of-keys).
    #[beside(SUNLIGHT)]
    secret: Shape = Shape::Secret, "required";

    /// URL for requests of logs.
    #[beside(SUNLIGHT)]
    submissionprefix: Shape = Shape::Text, "`https://` and `name`";

    /// URL for monitors. Lucarne serves both, from the lock.
    #[beside(SUNLIGHT)]
    monitoringprefix: Shape = Shape::Text, "`submissionprefix`";

    /// The logs that the witness cosigns: a list of verifier keys. `ORIGIN KEY` for another origin
    /// than the name of the key, and for a static CT log, whose key is the base64 of its DER.
    logs: Shape = Shape::List(&Shape::Text), "none";

    /// Lists of further logs, each a URL or a file: `logs/v0` of a witness network, or the JSON of
    /// CT logs (version 3). Read at the start, every 15 minutes and on SIGHUP. A list only adds
    /// logs: the lock keeps them, also if the list is unavailable.
    #[beside(SUNLIGHT)]
    loglists: Shape = Shape::List(&Shape::Text), "none";

    /// Directory to which `lucarne give-back` writes the checkpoints, for Sunlight's read server.
    #[beside(SUNLIGHT)]
    localdirectory: Shape = Shape::Text, "none";
}
