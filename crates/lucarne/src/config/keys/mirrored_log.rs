//! Keys of a log under `mirror`.

use lucarne_settings::form::Shape;
use lucarne_settings::section;

section! {
    /// Verifier key of the log, or the base64 of the public key of a static CT log.
    key: Shape = Shape::Text, "required";

    /// Origin of the log.
    origin: Shape = Shape::Text, "the name in `key`";

    /// Monitoring prefix of a static CT log, which the mirror copies by itself. Without this key,
    /// clients upload the entries.
    from: Shape = Shape::Text, "none";
}
