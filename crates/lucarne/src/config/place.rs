//! Places of a log's data and of the lock: paths, servers, buckets.

use std::fmt;
use std::path::{Path, PathBuf};

use lucarne_settings::form::Shape;
use lucarne_settings::{Key, Located, Reader, Value};
use lucarne_storage::object::{Azure, Bucket, Gcs, S3};
use lucarne_storage::{AssetError, LockError, ObjectStoreConfig, SqlLock};
use url::Url;

use super::keys;
use super::keys::storage;
use super::secret::{Secret, SecretError};

/// Place of a log's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataPlace {
    /// Directory (`localdirectory`).
    Directory(PathBuf),
    /// Bucket (`s3bucket`, `gcsbucket`, `azurecontainer`).
    Bucket(Box<ObjectStoreConfig>),
}

impl DataPlace {
    /// Returns the path of a directory; `None` for a bucket.
    pub fn directory(&self) -> Option<&Path> {
        match self {
            DataPlace::Directory(directory) => Some(directory),
            DataPlace::Bucket(_) => None,
        }
    }

    /// Returns the place of this name below the place.
    pub(crate) fn below(&self, name: &str) -> Self {
        match self {
            DataPlace::Directory(directory) => DataPlace::Directory(directory.join(name)),
            DataPlace::Bucket(config) => {
                let mut config = config.clone();
                config.key_prefix += &format!("{name}/");
                DataPlace::Bucket(config)
            }
        }
    }

    /// Returns the key that defines the place.
    pub(crate) fn key(&self) -> &'static str {
        match self {
            DataPlace::Directory(_) => "localdirectory",
            DataPlace::Bucket(config) => match &config.bucket {
                Bucket::S3(_) => "s3bucket",
                Bucket::Gcs(_) => "gcsbucket",
                Bucket::Azure(_) => "azurecontainer",
            },
        }
    }
}

impl fmt::Display for DataPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataPlace::Directory(directory) => directory.display().fmt(f),
            DataPlace::Bucket(config) => f.write_str(&config.location()),
        }
    }
}

/// Place of the lock of all logs. The text forms of the place omit passwords.
#[derive(Clone, PartialEq, Eq)]
pub enum LockPlace {
    /// SQLite database.
    Sqlite(PathBuf),
    /// URL of a database server.
    Server(String),
    /// Objects in a bucket.
    Bucket(Box<ObjectStoreConfig>),
}

impl fmt::Display for LockPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockPlace::Sqlite(path) => path.display().fmt(f),
            LockPlace::Server(url) => f.write_str(&SqlLock::shown(url)),
            LockPlace::Bucket(config) => f.write_str(&config.location()),
        }
    }
}

impl fmt::Debug for LockPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LockPlace({self})")
    }
}

/// Reasons why a text does not define a [`LockPlace`]. The messages do not repeat the text, because
/// the text may contain a password.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlaceError {
    #[error(transparent)]
    Bucket(#[from] AssetError),
    #[error(
        "has a bucket without a prefix: the lock requires a separate prefix, such as \
         s3://bucket/lock"
    )]
    NoPrefix,
    #[error(transparent)]
    Server(#[from] LockError),
}

/// Reasons why a password cannot be used for the lock. The text follows the key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PasswordError {
    #[error("is not allowed: only a lock on a database server has a password")]
    NoServer,
    #[error("{place} {source}")]
    Unread {
        /// Source of the password.
        place: String,
        source: SecretError,
    },
    #[error(transparent)]
    Server(#[from] LockError),
}

impl LockPlace {
    /// Parses a path or a URL. Relative paths, also in parameters of the URL, are relative to
    /// `directory`.
    ///
    /// # Errors
    /// [`PlaceError`].
    pub(crate) fn parse(text: &str, directory: &Path) -> Result<Self, PlaceError> {
        if ObjectStoreConfig::is_url(text) {
            let config = ObjectStoreConfig::from_url(&with_paths(text, directory))?;
            if config.key_prefix.is_empty() {
                return Err(PlaceError::NoPrefix);
            }
            return Ok(LockPlace::Bucket(Box::new(config)));
        }
        if let Some(rest) = text.strip_prefix("sqlite:") {
            let path = rest.strip_prefix("//").unwrap_or(rest);
            return Ok(LockPlace::Sqlite(directory.join(path)));
        }
        match text.split_once("://") {
            None => Ok(LockPlace::Sqlite(directory.join(text))),
            Some(_) => {
                SqlLock::schema(text)?;
                Ok(LockPlace::Server(with_paths(text, directory)))
            }
        }
    }

    /// Returns the file that only the server may read: the database, the key of a client of the
    /// database server, or the credentials of the bucket.
    pub(super) fn private_file(&self) -> Option<PathBuf> {
        match self {
            LockPlace::Sqlite(file) => Some(file.clone()),
            LockPlace::Server(url) => client_key(url),
            LockPlace::Bucket(config) => credentials_file(config).map(Path::to_owned),
        }
    }
}

/// Parameters of URLs whose values are paths. `credentials` belongs to a bucket, the others to
/// database servers.
const PATHS: [&str; 10] = [
    "credentials",
    "socket",
    "ssl-ca",
    "ssl-cert",
    "ssl-key",
    "ssl-root-cert",
    "sslca",
    "sslcert",
    "sslkey",
    "sslrootcert",
];

/// Returns whether a parameter of a URL is a relative path. A certificate or key can also be PEM
/// instead of a path.
fn is_relative_path(name: &str, value: &str) -> bool {
    let is_word = value.is_empty() || (name == "credentials" && value == "none");
    let is_pem = value.trim_start().starts_with("-----BEGIN");
    PATHS.contains(&name) && !is_word && !is_pem && Path::new(value).is_relative()
}

/// Returns the URL of a lock with `directory` before the relative paths in its parameters.
fn with_paths(text: &str, directory: &Path) -> String {
    let Ok(mut url) = Url::parse(text) else {
        return text.to_owned();
    };
    let mut parameters: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    let mut is_changed = false;
    for (name, value) in &mut parameters {
        if is_relative_path(name, value) {
            *value = directory.join(&*value).to_string_lossy().into_owned();
            is_changed = true;
        }
    }
    if !is_changed {
        return text.to_owned();
    }
    url.query_pairs_mut().clear().extend_pairs(parameters);
    url.into()
}

/// Returns the file with the TLS key of a client of this database server.
fn client_key(url: &str) -> Option<PathBuf> {
    let url = Url::parse(url).ok()?;
    let mut parameters = url.query_pairs();
    let (_, file) = parameters.find(|(name, _)| matches!(&**name, "sslkey" | "ssl-key"))?;
    Some(PathBuf::from(&*file))
}

/// Returns the file with the credentials of a bucket, if the configuration names one.
fn credentials_file(config: &ObjectStoreConfig) -> Option<&Path> {
    match &config.bucket {
        Bucket::Gcs(gcs) => gcs.credentials.as_deref(),
        Bucket::S3(_) | Bucket::Azure(_) => None,
    }
}

/// Adds the password from its source to the URL of the lock's server.
///
/// # Errors
/// [`PasswordError`].
fn with_password(place: LockPlace, secret: &Secret) -> Result<LockPlace, PasswordError> {
    let LockPlace::Server(url) = place else {
        return Err(PasswordError::NoServer);
    };
    let password = secret.text().map_err(|source| PasswordError::Unread {
        place: secret.to_string(),
        source,
    })?;
    let url = SqlLock::with_password(&url, &password)?;
    Ok(LockPlace::Server(url))
}

/// The lock, and the file with the password of the lock's server, or with the credentials that
/// fetch the password.
pub(super) type Lock = (Located<LockPlace>, Option<Located<PathBuf>>);

/// Reads `checkpointspassword` and puts the password into the place of the lock. Also returns the
/// file that only the server may read.
fn password(
    reader: &mut Reader<'_, '_>,
    place: LockPlace,
) -> Option<(LockPlace, Option<Located<PathBuf>>)> {
    const KEY: &str = "checkpointspassword";
    let directory = reader.directory();
    let Some(source) = reader.parse(KEY, |text| Secret::parse_password(text, directory)) else {
        return (!reader.has(KEY)).then_some((place, None));
    };
    source.value.warn_of_group(reader, source.line, KEY);
    let file = source.value.private_file().map(|file| Located {
        value: file.to_owned(),
        line: source.line,
    });
    match with_password(place, &source.value) {
        Ok(place) => Some((place, file)),
        Err(why) => {
            reader.problem(source.line, KEY, why.to_string());
            None
        }
    }
}

/// Reads `checkpoints` and `checkpointspassword`.
pub(super) fn lock(reader: &mut Reader<'_, '_>) -> Option<Lock> {
    const KEY: &str = "checkpoints";
    if let Some(node) = reader.node(KEY)
        && let Value::Map(_) = node.value
    {
        let message = "must be a path or a URL, but is a map. Sunlight's DynamoDB table is not \
                       supported; write an SQLite database's path, mysql://…, postgres://…, or \
                       s3://bucket/prefix?region=…, gs://… or az://…";
        reader.problem(Some(node.line), KEY, message);
        return None;
    }
    let text = reader.text(KEY);
    let text = reader.required(KEY, text, "checkpoints.db")?;
    let place = LockPlace::parse(text.value, reader.directory());
    match place {
        Ok(place) => {
            let text = text.map(|_| ());
            let (place, password) = password(reader, place)?;
            Some((text.map(|()| place), password))
        }
        Err(why) => {
            reader.problem(text.line, KEY, why.to_string());
            None
        }
    }
}

/// Reads the place of a log's data, which must be of exactly one kind.
pub(super) fn data(reader: &mut Reader<'_, '_>) -> Option<Located<DataPlace>> {
    let has = |key: &&str| reader.has(key);
    let own = |key: &&str| reader.has(key) && !reader.inherited(key);
    // A log's own place overrides places of other kinds in `defaults`.
    let mut named: Vec<&str> = keys::PLACES.into_iter().filter(own).collect();
    if named.is_empty() {
        named = keys::PLACES.into_iter().filter(has).collect();
    }
    let (kind, second) = (named.first().copied(), named.get(1).copied());
    if let (Some(first), Some(second)) = (kind, second) {
        let line = reader.node(second).map(|node| node.line);
        let message =
            format!("cannot be combined with `{first}`: a log has only one place of data");
        reader.problem(line, second, message);
        return None;
    }
    orphans(reader, kind);
    let Some(kind) = kind else {
        let example = "/var/lib/lucarne/rome2026h1";
        reader.required::<()>("localdirectory", None, example);
        return None;
    };
    if kind == "localdirectory" {
        let directory = reader.path(kind)?;
        return Some(directory.map(DataPlace::Directory));
    }
    let name = reader.text(kind)?.map(str::to_owned);
    let bucket = match kind {
        "s3bucket" => s3(reader, name.value.clone())?,
        "gcsbucket" => gcs(reader, name.value.clone()),
        _ => azure(reader, name.value.clone()),
    };
    let config = ObjectStoreConfig::new(bucket, prefix(reader, kind));
    match config.validate() {
        Ok(()) => Some(name.map(|_| DataPlace::Bucket(Box::new(config)))),
        Err(error) => {
            reader.problem(name.line, kind, error.to_string());
            None
        }
    }
}

/// Reads the file with the credentials of a bucket.
pub(super) fn credentials(
    reader: &mut Reader<'_, '_>,
    data: Option<&Located<DataPlace>>,
) -> Option<Located<PathBuf>> {
    match &data?.value {
        DataPlace::Bucket(config) if credentials_file(config).is_some() => {
            reader.path(&storage::KEYS.gcscredentials)
        }
        _ => None,
    }
}

/// Reports keys that belong to another kind of place. In `defaults`, these keys are harmless.
fn orphans(reader: &mut Reader<'_, '_>, kind: Option<&str>) {
    for key in keys::LOG.names() {
        let bucket = keys::bucket_of(key);
        let line = reader.node(key).map(|node| node.line);
        let (Some(owner), Some(line)) = (bucket, line) else {
            continue;
        };
        if kind != Some(owner) && !reader.inherited(key) {
            let message = format!("has no meaning without `{owner}`");
            reader.problem(Some(line), key, message);
        }
    }
}

/// Reads the key prefix, which is used unchanged.
fn prefix(reader: &mut Reader<'_, '_>, kind: &str) -> String {
    let key = match kind {
        "s3bucket" => "s3keyprefix",
        "gcsbucket" => "gcskeyprefix",
        _ => "azurekeyprefix",
    };
    let Some(prefix) = reader.text(key) else {
        return String::new();
    };
    if !prefix.value.ends_with('/') && !prefix.value.is_empty() {
        let message = format!(
            "does not end in a slash: the keys become `{0}checkpoint`, not `{0}/checkpoint`",
            prefix.value
        );
        reader.warning(prefix.line, key, message);
    }
    prefix.value.to_owned()
}

fn owned(reader: &mut Reader<'_, '_>, key: &Key<Shape>) -> Option<String> {
    Some(reader.text(key)?.value.to_owned())
}

fn s3(reader: &mut Reader<'_, '_>, bucket: String) -> Option<Bucket> {
    let style = reader.get(&storage::KEYS.s3style);
    if reader.has(&storage::KEYS.s3style) && style.is_none() {
        return None;
    }
    Some(Bucket::S3(S3 {
        region: owned(reader, &storage::KEYS.s3region),
        bucket,
        endpoint: owned(reader, &storage::KEYS.s3endpoint),
        virtual_hosted: style.unwrap_or_default(),
        // An explicit `http://` URL is intended.
        allow_http: true,
        profile: owned(reader, &storage::KEYS.s3profile),
        keys: None,
    }))
}

fn gcs(reader: &mut Reader<'_, '_>, bucket: String) -> Bucket {
    let anonymous = reader.text(&storage::KEYS.gcscredentials);
    let anonymous = anonymous.is_some_and(|text| text.value == "none");
    let credentials = if anonymous {
        None
    } else {
        reader
            .path(&storage::KEYS.gcscredentials)
            .map(|file| file.value)
    };
    Bucket::Gcs(Gcs {
        bucket,
        endpoint: owned(reader, &storage::KEYS.gcsendpoint),
        allow_http: true,
        anonymous,
        credentials,
    })
}

fn azure(reader: &mut Reader<'_, '_>, container: String) -> Bucket {
    Bucket::Azure(Azure {
        account: owned(reader, &storage::KEYS.azureaccount),
        container,
        endpoint: owned(reader, &storage::KEYS.azureendpoint),
        allow_http: true,
        key: None,
    })
}

#[cfg(all(test, feature = "mysql", feature = "postgres"))]
mod tests {
    use super::*;

    fn server(text: &str) -> String {
        match LockPlace::parse(text, Path::new("/etc/lucarne")) {
            Ok(LockPlace::Server(url)) => url,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn paths_in_parameters_are_relative_to_the_directory() {
        for (text, expected) in [
            (
                "postgres://u:p%40@h/db?sslmode=verify-full&sslrootcert=ca.pem&sslcert=/k/c.pem",
                "postgres://u:p%40@h/db?sslmode=verify-full&sslrootcert=%2Fetc%2Flucarne%2Fca.pem\
                 &sslcert=%2Fk%2Fc.pem",
            ),
            (
                "mysql://u@localhost/db?socket=my.sock&ssl-ca=tls/ca.pem&ssl-key=",
                "mysql://u@localhost/db?socket=%2Fetc%2Flucarne%2Fmy.sock\
                 &ssl-ca=%2Fetc%2Flucarne%2Ftls%2Fca.pem&ssl-key=",
            ),
        ] {
            assert_eq!(server(text), expected);
        }
        // A URL without relative paths keeps its spelling.
        for text in [
            "mysql://u:p@h/db?ssl-ca=/ca.pem&ssl-mode=VERIFY_IDENTITY",
            "postgres:///db?host=/run/postgresql&user=u",
            "postgres://u@h/db?sslrootcert=-----BEGIN CERTIFICATE-----",
        ] {
            assert_eq!(server(text), text);
        }
    }
}
