//! Options of `s3`.

use std::fmt;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use lucarne_settings::values::ValueError;
use lucarne_settings::{typed, values};
use serde::{Deserialize, Deserializer};

use crate::connection_options::ConnectionOptions;
use crate::option_values::TimeSpan;

/// Stores and operations of the scenario.
#[derive(Clone, PartialEq, Args, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct S3Options {
    /// URL of a store, with `name=` before it if its host is not a suitable name; several take turns
    #[arg(long, value_name = "[NAME=]URL")]
    #[serde(deserialize_with = "typed::list")]
    pub endpoint: Vec<String>,
    /// Bucket to use
    #[arg(long, value_name = "NAME", default_value = "lucarne-load")]
    pub bucket: String,
    /// Create the bucket if it does not exist, and remove it at the end
    #[arg(long)]
    pub create_bucket: bool,
    /// Prefix of the names of all objects
    #[arg(long, value_name = "TEXT", default_value = "lucarne-load/")]
    pub prefix: String,
    /// Do not remove the objects at the end
    #[arg(long)]
    pub keep: bool,
    /// Access key, one for all stores or one for each [default: AWS_ACCESS_KEY_ID]
    #[arg(long, value_name = "KEY")]
    #[serde(deserialize_with = "typed::list")]
    pub access_key: Vec<String>,
    /// Secret key, in the same way; better kept in the environment [default: AWS_SECRET_ACCESS_KEY]
    #[arg(long, value_name = "KEY")]
    #[serde(deserialize_with = "typed::list")]
    pub secret_key: Vec<String>,
    /// Session token of temporary keys, in the same way [default: AWS_SESSION_TOKEN, with the access key of the environment]
    #[arg(long, value_name = "TOKEN")]
    #[serde(deserialize_with = "typed::list")]
    pub session_token: Vec<String>,
    /// Profile of ~/.aws/credentials and ~/.aws/config [default: AWS_PROFILE, or `default`, if the
    /// environment has no keys]
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// Region to sign for
    #[arg(long, value_name = "NAME", default_value = "us-east-1")]
    pub region: String,
    /// Place of the bucket's name: in the path, or in front of the host
    #[arg(long, value_enum, default_value_t)]
    pub style: AddressingStyle,
    /// Operations to run
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Operation::Put, Operation::Get])]
    pub operations: Vec<Operation>,
    /// Sizes of the objects (4KiB, 1MB, 0)
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_values_t = SIZES)]
    #[serde(deserialize_with = "typed::list")]
    pub sizes: Vec<Size>,
    /// Numbers of active users, at most the users of the run
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = CONCURRENCY)]
    #[serde(deserialize_with = "typed::list")]
    pub concurrency: Vec<u32>,
    /// Duration of each combination
    #[arg(long, value_name = "TIME", default_value_t = TimeSpan::seconds(10))]
    pub cell_duration: TimeSpan,
    /// Run all combinations in turn with all users, for a fixed rate
    #[arg(long)]
    pub mixed: bool,
    /// Number of objects of each size that are overwritten and read
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub objects: u32,
    /// Clients that create an object concurrently (create)
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub racers: u32,
    /// Connections to the stores.
    #[command(flatten)]
    #[serde(rename = "..connection")]
    pub connection: ConnectionOptions,
}

const SIZES: [Size; 4] = [Size(4 << 10), Size(8 << 10), Size(1 << 20), Size(4 << 20)];
const CONCURRENCY: [u32; 3] = [1, 8, 32];

/// Omits the secret.
impl fmt::Debug for S3Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("endpoint", &self.endpoint)
            .field("bucket", &(&self.bucket, self.create_bucket))
            .field("prefix", &(&self.prefix, self.keep))
            .field("access_key", &self.access_key)
            .field("secret_keys", &self.secret_key.len())
            .field("session_tokens", &self.session_token.len())
            .field("profile", &self.profile)
            .field("region", &(&self.region, self.style))
            .field("operations", &self.operations)
            .field("sizes", &self.sizes)
            .field("concurrency", &(&self.concurrency, self.mixed))
            .field("cell_duration", &self.cell_duration)
            .field("objects", &(self.objects, self.racers))
            .field("connection", &self.connection)
            .finish()
    }
}

/// An operation on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// PUT, which later overwrites older objects
    Put,
    /// GET, compared with the written object
    Get,
    /// HEAD
    Head,
    /// PUT only if there is no such object; several clients send it concurrently
    Create,
    /// DELETE of an object that was just written
    Delete,
}

impl Operation {
    /// Returns the name in options and tags.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Operation::Put => "put",
            Operation::Get => "get",
            Operation::Head => "head",
            Operation::Create => "create",
            Operation::Delete => "delete",
        }
    }
}

/// Place of the bucket's name: in the path or in the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AddressingStyle {
    /// `host/bucket/key`
    #[default]
    Path,
    /// `bucket.host/key`
    Virtual,
}

/// A number of bytes, written `4KiB`, `1MB` or `500`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(pub u64);

/// Size limit of an object: one PUT allows 5 GB, but a client holds the object in memory.
const MAX_SIZE: u64 = 1 << 30;

/// The reasons why a text is not a size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SizeError {
    /// The text is not a number with a unit.
    #[error(transparent)]
    Invalid(#[from] ValueError),
    /// The size exceeds 1 GiB.
    #[error("is too large: at most 1GiB")]
    TooLarge,
}

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let size = values::size(text)?;
        match size {
            0..=MAX_SIZE => Ok(Self(size)),
            _ => Err(SizeError::TooLarge),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&values::show_size(self.0))
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        typed::parsed(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_as_they_are_read() {
        for (text, size, shown) in [
            ("0", 0, "0B"),
            ("500", 500, "500B"),
            ("4KiB", 4096, "4KiB"),
            ("4 kB", 4000, "4kB"),
            ("4096", 4096, "4KiB"),
            ("1mb", 1_000_000, "1MB"),
            ("1GiB", 1 << 30, "1GiB"),
        ] {
            let read: Size = text.parse().unwrap();
            assert_eq!((read.0, read.to_string().as_str()), (size, shown));
        }
        for wrong in ["", "KiB", "4 apples", "-1", "1.5MB", "99999999999999999999"] {
            assert_eq!(
                wrong.parse::<Size>(),
                Err(SizeError::Invalid(ValueError::Size)),
                "{wrong}"
            );
        }
        assert_eq!("2GiB".parse::<Size>(), Err(SizeError::TooLarge));
    }

    #[test]
    fn a_secret_is_not_shown() {
        let options = S3Options {
            secret_key: vec!["hidden".into()],
            ..S3Options::default()
        };
        assert!(!format!("{options:?}").contains("hidden"));
    }
}
