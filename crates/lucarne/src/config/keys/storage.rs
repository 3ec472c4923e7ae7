//! Keys of the bucket with the data of a log.

use lucarne_settings::form::{Shape, Words};
use lucarne_settings::{Key, Table};

use super::SUNLIGHT;

pub(crate) static TABLE: Table = Table::of(&[
    &S3BUCKET,
    &S3REGION,
    &S3ENDPOINT,
    &S3STYLE,
    &S3PROFILE,
    &GCSBUCKET,
    &GCSENDPOINT,
    &GCSCREDENTIALS,
    &AZURECONTAINER,
    &AZUREACCOUNT,
    &AZUREENDPOINT,
]);

pub(crate) static S3BUCKET: Key<Shape> = Key::new(
    "s3bucket",
    Shape::Text,
    "none",
    "Bucket in S3, or in a server with the S3 protocol.",
)
.beside(SUNLIGHT);

pub(crate) static S3REGION: Key<Shape> = Key::new(
    "s3region",
    Shape::Text,
    "the profile's, `AWS_REGION`, `AWS_DEFAULT_REGION`, `us-east-1`",
    "Region of the bucket. The default is the first of these regions that is set. The region of a \
     profile counts only if the log uses the keys of this profile: see \
     [storage.md](storage.md#in-a-bucket).",
)
.beside(SUNLIGHT);

pub(crate) static S3ENDPOINT: Key<Shape> = Key::new(
    "s3endpoint",
    Shape::Text,
    "Amazon's",
    "URL of the server, if the server is not Amazon's.",
)
.beside(SUNLIGHT);

pub(crate) static S3STYLE: Key<Words<bool>> = Key::new(
    "s3style",
    Words(&[("path", false), ("virtual", true)]),
    "`path` with `s3endpoint`",
    "Place of the bucket's name: `path`, or `virtual` for the host name. For Amazon, the default \
     is the style that Amazon recommends.",
);

pub(crate) static S3PROFILE: Key<Shape> = Key::new(
    "s3profile",
    Shape::Text,
    "`AWS_PROFILE`",
    "Profile of `~/.aws/credentials` and `~/.aws/config`.",
);

pub(crate) static GCSBUCKET: Key<Shape> = Key::new(
    "gcsbucket",
    Shape::Text,
    "none",
    "Bucket in Google Cloud Storage.",
);

pub(crate) static GCSENDPOINT: Key<Shape> = Key::new(
    "gcsendpoint",
    Shape::Text,
    "Google's",
    "URL of another server, such as an emulator.",
);

pub(crate) static GCSCREDENTIALS: Key<Shape> = Key::new(
    "gcscredentials",
    Shape::Text,
    "the environment's",
    "File of application credentials, or `none` for emulators.",
);

pub(crate) static AZURECONTAINER: Key<Shape> = Key::new(
    "azurecontainer",
    Shape::Text,
    "none",
    "Container in Azure Blob Storage.",
);

pub(crate) static AZUREACCOUNT: Key<Shape> = Key::new(
    "azureaccount",
    Shape::Text,
    "`AZURE_STORAGE_ACCOUNT_NAME`",
    "Storage account of the container.",
);

pub(crate) static AZUREENDPOINT: Key<Shape> = Key::new(
    "azureendpoint",
    Shape::Text,
    "Microsoft's",
    "URL of another server, such as an emulator; with the account in its path if the server needs \
     it.",
);
