//! Flags for the data and the lock of a log.

use std::path::{Path, PathBuf};

use lucarne_settings::Located;
use lucarne_storage::ObjectStoreConfig;

use super::Flags;
use super::parse::{Parse, unplaced};
use crate::config::clouds::Cloud;
use crate::config::place::{self, DataPlace, LockPlace};
use crate::config::secret::Secret;

const NO_LOCK: &str = "is missing: the lock of a log in a bucket, such as mysql://…, \
                       postgres://…, or s3://bucket/lock";

impl Flags {
    pub(super) fn lock(
        &self,
        parse: &mut Parse<'_>,
        data: Option<&DataPlace>,
    ) -> Option<LockPlace> {
        if let Some(text) = &self.checkpoints {
            let place = LockPlace::parse(text, Path::new(""));
            let place = parse.or_problem("checkpoints", place)?;
            return self.with_password(parse, place);
        }
        if let Some(place) = self.clouds.lock() {
            return parse.or_problem("db-host", place);
        }
        match data? {
            DataPlace::Directory(directory) => Some(LockPlace::Sqlite(beside(directory))),
            DataPlace::Bucket(_) => {
                parse.problem("checkpoints", NO_LOCK);
                None
            }
        }
    }

    pub(super) fn data(&self, parse: &mut Parse<'_>) -> Option<DataPlace> {
        if let Some(text) = &self.bucket {
            let url = match (ObjectStoreConfig::is_url(text), self.cloud()) {
                (false, Some(cloud)) => cloud.bucket(text, |name| std::env::var(name).ok()),
                _ => text.clone(),
            };
            let config = parse.or_problem("bucket", ObjectStoreConfig::from_url(&url))?;
            return Some(DataPlace::Bucket(Box::new(config)));
        }
        let directory = parse.present("storage-dir", self.storage_dir.as_ref());
        Some(DataPlace::Directory(directory?.clone()))
    }

    fn with_password(&self, parse: &mut Parse<'_>, place: LockPlace) -> Option<LockPlace> {
        let Some(source) = &self.checkpoints_password else {
            return Some(place);
        };
        let source = Secret::parse_password(source, Path::new(""));
        let source = parse.or_problem("checkpoints-password", source)?;
        let place = place::with_password(place, &source);
        parse.or_problem("checkpoints-password", place)
    }

    /// Returns the file with the password of the lock's server, or with the credentials that fetch
    /// the password.
    pub(super) fn password_file(&self) -> Option<Located<PathBuf>> {
        let source = self.checkpoints_password.as_deref()?;
        let source = Secret::parse_password(source, Path::new("")).ok()?;
        source.private_file().map(|file| unplaced(file.to_owned()))
    }

    /// Returns the TesseraCT server that the flags belong to; `None` if no flag shows which server
    /// it is.
    fn cloud(&self) -> Option<Cloud> {
        self.clouds.cloud().or_else(|| self.ignored.cloud())
    }
}

/// Returns the default path of the lock. The lock must be outside the data, because one backup
/// would roll back both.
fn beside(directory: &Path) -> PathBuf {
    let mut name = directory.to_path_buf().into_os_string();
    name.push(".checkpoints.db");
    PathBuf::from(name)
}
