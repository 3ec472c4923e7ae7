//! Keys under `mirror`.

use lucarne_settings::form::Shape;
use lucarne_settings::section;

use super::mirrored_log;

section! {
    /// Name of the mirror in its cosignatures, such as `mirror.example.com`, which no witness may
    /// have. The key is derived from the name and `secret`.
    name: Shape = Shape::Text, "required";

    /// The seed of the key, as [of a witness](#witness).
    secret: Shape = Shape::Secret, "required";

    /// URL for clients that upload entries.
    submissionprefix: Shape = Shape::Text, "`https://` and `name`";

    /// URL for monitors. Each log is below it, in a path named after the SHA-256 of its origin.
    monitoringprefix: Shape = Shape::Text, "`submissionprefix`";

    /// Directory with the copies, or a bucket with the keys of [a log's bucket](#buckets). It must
    /// exist. Each copy is below it, named after the SHA-256 of its origin.
    localdirectory: Shape = Shape::Text, "this, or a bucket";

    /// Prefix of the keys in the bucket.
    s3keyprefix: Shape = Shape::Text, "none";

    /// Prefix of the keys in the bucket.
    gcskeyprefix: Shape = Shape::Text, "none";

    /// Prefix of the keys in the bucket.
    azurekeyprefix: Shape = Shape::Text, "none";

    /// The logs: a list of maps.
    logs: Shape = Shape::List(&Shape::Map(&mirrored_log::TABLE)), "required";
}
