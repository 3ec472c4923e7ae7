//! Identity of a log: name, prefixes, key, directories.

use std::path::{Path, PathBuf};

use lucarne_log::Signer;
use lucarne_settings::{Located, Reader, Report};

use super::distinct::{self, Claimant, Claims};
use super::keys::identity::KEYS;
use super::place::DataPlace;
use super::values::{self, Prefix};
use super::{place, secret, signer};

/// The parts of an identity that could be read.
pub(super) struct Identity {
    pub(super) shortname: Option<Located<String>>,
    pub(super) submission: Option<Located<Prefix>>,
    pub(super) monitoring: Option<Located<Prefix>>,
    pub(super) key: Option<Located<Signer>>,
    /// File with the key, or with the credentials that fetch the key.
    pub(super) secret: Option<Located<PathBuf>>,
    pub(super) data: Option<Located<DataPlace>>,
    /// File with the credentials of the bucket.
    pub(super) credentials: Option<Located<PathBuf>>,
    pub(super) cache: Option<Located<PathBuf>>,
}

/// Reads the identity, and the key in its file. `place` is the place of the data, if the section
/// does not have it.
pub(super) fn read(reader: &mut Reader<'_, '_>, place: Option<&DataPlace>) -> Identity {
    let shortname = reader.parse(&KEYS.shortname, values::shortname);
    let shortname = reader.required(&KEYS.shortname, shortname, "rome2026h1");
    let submission = reader.parse(&KEYS.submissionprefix, values::prefix);
    let submission = reader.required(
        &KEYS.submissionprefix,
        submission,
        "https://ct.example/2026h1/",
    );
    let monitoring = reader
        .parse(&KEYS.monitoringprefix, values::prefix)
        .or_else(|| submission.clone());
    for (key, prefix) in [
        (&KEYS.submissionprefix, &submission),
        (&KEYS.monitoringprefix, &monitoring),
    ] {
        if let Some(prefix) = prefix
            && let Some(oddity) = prefix.value.oddity()
        {
            let message = format!(
                "`{}` {oddity}; only an existing log may have this prefix",
                prefix.value.url
            );
            reader.warning(prefix.line, key, message);
        }
    }
    if let Some(submission) = &submission {
        check_name(reader, submission.value.origin());
    }
    let (key, secret) = signer(reader).unzip();
    let data = match place {
        Some(place) => Some(Located {
            value: place.clone(),
            line: None,
        }),
        None => place::data(reader),
    };
    let credentials = place::credentials(reader, data.as_ref());
    let cache = cache(reader, data.as_ref());
    Identity {
        shortname,
        submission,
        monitoring,
        key,
        secret: secret.flatten(),
        data,
        credentials,
        cache,
    }
}

impl Identity {
    /// Claims all parts, and reports parts that another log has claimed.
    pub(super) fn claim(&self, who: Claimant<'_>, claims: &mut Claims, report: &mut Report) {
        let mut claim = |what, key, value: Option<(String, Option<usize>)>| {
            if let Some(value) = value {
                claims.claim(who, (what, key), value, report);
            }
        };
        let name = |name: &Located<String>| (name.value.clone(), name.line);
        let origin = |prefix: &Located<Prefix>| (prefix.value.origin().to_owned(), prefix.line);
        let place = |path: &Located<PathBuf>| (distinct::real(&path.value), path.line);
        let id = |key: &Located<Signer>| (hex::encode(key.value.log_id().0), key.line);
        let (submission, monitoring) = (self.submission.as_ref(), self.monitoring.as_ref());
        claim("name", "shortname", self.shortname.as_ref().map(name));
        claim(
            "key",
            name_of_key(self.key.as_ref()),
            self.key.as_ref().map(id),
        );
        claim("prefix", "submissionprefix", submission.map(origin));
        claim("prefix", "monitoringprefix", monitoring.map(origin));
        if let Some(data) = &self.data {
            let (what, value) = match &data.value {
                DataPlace::Directory(directory) => ("directory", distinct::real(directory)),
                DataPlace::Bucket(bucket) => {
                    let place = format!("{} {}", bucket.bucket_identity(), bucket.key_prefix);
                    ("bucket and key prefix", place)
                }
            };
            claim(what, data.value.key(), Some((value, data.line)));
        }
        claim("directory", "cache", self.cache.as_ref().map(place));
    }
}

/// Checks Sunlight's deprecated `name`, which must equal the origin.
fn check_name(reader: &mut Reader<'_, '_>, origin: &str) {
    if let Some(name) = reader.text(&KEYS.name)
        && name.value != origin
    {
        let message = format!(
            "`{}` differs from the origin `{origin}`, which is the submission prefix without its \
             scheme: remove this key, or correct `submissionprefix`",
            name.value
        );
        reader.problem(name.line, &KEYS.name, message);
    }
}

fn name_of_key(key: Option<&Located<Signer>>) -> &'static str {
    match key.map(|key| &key.value) {
        Some(Signer::Apart(_)) => "signer",
        _ => "secret",
    }
}

/// Reads the holder of the key: a separate signer, or this process with an optional file.
fn signer(reader: &mut Reader<'_, '_>) -> Option<(Located<Signer>, Option<Located<PathBuf>>)> {
    match reader.path(&KEYS.signer) {
        Some(socket) => signer::apart(socket, reader).map(|signer| (signer, None)),
        None => {
            if let Some(key) = reader.text(&KEYS.publickey) {
                reader.problem(
                    key.line,
                    &KEYS.publickey,
                    "requires `signer`, which is missing",
                );
            }
            let Located { value, line } = secret::key(reader)?;
            let signer = Located {
                value: value.key.into(),
                line,
            };
            Some((signer, value.file.map(|value| Located { value, line })))
        }
    }
}

/// Returns the name of Lucarne's cache directory beside Sunlight's cache file.
pub(crate) fn beside_sunlights(cache: &Path) -> PathBuf {
    let mut name = cache.as_os_str().to_owned();
    name.push(".lucarne");
    PathBuf::from(name)
}

/// Reads `cache`, which is a directory in Lucarne. If the path is Sunlight's SQLite file, Lucarne
/// uses a directory beside that file.
fn cache(
    reader: &mut Reader<'_, '_>,
    data: Option<&Located<DataPlace>>,
) -> Option<Located<PathBuf>> {
    let Some(cache) = reader.path(&KEYS.cache) else {
        let Some(directory) = data?.value.directory() else {
            // A cache must not be in a bucket.
            return reader.required(&KEYS.cache, None, "/var/cache/lucarne/rome2026h1");
        };
        let within = directory.join(".lucarne/cache");
        return Some(data?.clone().map(|_| within));
    };
    if !cache.value.is_file() {
        return Some(cache);
    }
    let beside = cache.clone().map(|path| beside_sunlights(&path));
    let message = format!(
        "is a file (Sunlight's cache?), which Lucarne does not use: Lucarne's cache is {}",
        beside.value.display()
    );
    reader.warning(cache.line, &KEYS.cache, message);
    Some(beside)
}
