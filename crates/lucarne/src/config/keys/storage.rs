//! Keys of the bucket with the data of a log.

use lucarne_settings::form::{Shape, Words};
use lucarne_settings::section;

use super::SUNLIGHT;

section! {
    /// Bucket in S3, or in a server with the S3 protocol.
    #[beside(SUNLIGHT)]
    s3bucket: Shape = Shape::Text, "none";

    /// Region of the bucket. The default is the first of these regions that is set. The region of a
    /// profile counts only if the log uses the keys of this profile: see
    /// [storage.md](storage.md#in-a-bucket).
    #[beside(SUNLIGHT)]
    s3region: Shape = Shape::Text, "the profile's, `AWS_REGION`, `AWS_DEFAULT_REGION`, `us-east-1`";

    /// URL of the server, if the server is not Amazon's.
    #[beside(SUNLIGHT)]
    s3endpoint: Shape = Shape::Text, "Amazon's";

    /// Place of the bucket's name: `path`, or `virtual` for the host name. For Amazon, the default
    /// is the style that Amazon recommends.
    s3style: Words<bool> = Words(&[("path", false), ("virtual", true)]), "`path` with `s3endpoint`";

    /// Profile of `~/.aws/credentials` and `~/.aws/config`.
    s3profile: Shape = Shape::Text, "`AWS_PROFILE`";

    /// Bucket in Google Cloud Storage.
    gcsbucket: Shape = Shape::Text, "none";

    /// URL of another server, such as an emulator.
    gcsendpoint: Shape = Shape::Text, "Google's";

    /// File of application credentials, or `none` for emulators.
    gcscredentials: Shape = Shape::Text, "the environment's";

    /// Container in Azure Blob Storage.
    azurecontainer: Shape = Shape::Text, "none";

    /// Storage account of the container.
    azureaccount: Shape = Shape::Text, "`AZURE_STORAGE_ACCOUNT_NAME`";

    /// URL of another server, such as an emulator; with the account in its path if the server needs
    /// it.
    azureendpoint: Shape = Shape::Text, "Microsoft's";
}
