//! Sources of a log's key (`secret`) and of a lock's password (`checkpointspassword`).

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::str::Utf8Error;

use lucarne_ct::LogKey;
use lucarne_mint::{Exposed, check_access};
use lucarne_settings::{Located, Reader};

use super::command::{self, CommandError};
use super::key::{self, KeyError};
use super::manager::{FetchError, Manager, ManagerError};
use crate::files;

/// Source of a log's key or of a password. The source itself is not secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Secret {
    /// A file on disk.
    File(PathBuf),
    /// Credential of the systemd service.
    Credential(String),
    /// Environment variable.
    Variable(String),
    /// Output of a command.
    Command(Vec<String>),
    /// Secret in a cloud service.
    Manager(Manager),
    /// A text that may be the secret itself in place of its source. The text is refused, and not
    /// kept, so that no message contains it.
    Inline,
}

/// Reasons why a text does not name a [`Secret`]. The text follows the value.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    #[error("has no name of a credential: write `credential:NAME`")]
    Credential,
    #[error("has no valid name of an environment variable: write `env:NAME`")]
    Variable,
    #[error("has no command: write `exec: command arguments`")]
    Command,
    #[error(transparent)]
    Manager(#[from] ManagerError),
}

/// Reasons why a [`Secret`] cannot be read. The text follows the source, and never contains the
/// secret.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretError {
    #[error("does not exist")]
    Absent(#[source] io::Error),
    #[error("cannot be read: {0}")]
    Read(#[source] io::Error),
    #[error(transparent)]
    Exposed(#[from] Exposed),
    #[error(
        "is missing: CREDENTIALS_DIRECTORY is not set. The service requires `LoadCredential=` (see \
         systemd.exec)"
    )]
    NoCredentials,
    #[error("is missing: the service requires `LoadCredential=` with this name")]
    NoCredential(#[source] io::Error),
    #[error("is not set")]
    Unset,
    /// The variable is not UTF-8. The error of `std` would contain its value.
    #[error("is not UTF-8 text: write the key in base64 or PEM")]
    VariableNoText,
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("is not UTF-8 text")]
    NoText(#[from] Utf8Error),
    #[error("is empty")]
    Empty,
    #[error("has more than one line: expected one")]
    Lines,
    #[error(
        "does not name a file, and is not shown here, because it may be the secret itself: write \
         the secret to a file with mode 0600, and configure the path of that file"
    )]
    Inline,
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Secret::File(file) => file.display().fmt(f),
            Secret::Credential(name) => write!(f, "credential `{name}`"),
            Secret::Variable(name) => write!(f, "environment variable {name}"),
            Secret::Command(words) => {
                write!(f, "command `{}`", words.first().map_or("", |it| it))
            }
            Secret::Manager(manager) => manager.fmt(f),
            Secret::Inline => f.write_str("the value"),
        }
    }
}

impl Secret {
    /// Parses the value of `secret`. A path is relative to `directory`.
    ///
    /// # Errors
    /// [`SourceError`], whose text follows the value.
    pub(crate) fn parse(text: &str, directory: &Path) -> Result<Self, SourceError> {
        if let Some(manager) = Manager::parse(text, directory) {
            return Ok(Secret::Manager(manager?));
        }
        if let Some(name) = text.strip_prefix("credential:") {
            return if name.is_empty() || name.contains('/') {
                Err(SourceError::Credential)
            } else {
                Ok(Secret::Credential(name.into()))
            };
        }
        if let Some(name) = text.strip_prefix("env:") {
            return if name.is_empty() || name.contains(['=', ' ']) {
                Err(SourceError::Variable)
            } else {
                Ok(Secret::Variable(name.into()))
            };
        }
        if let Some(command) = text.strip_prefix("exec:") {
            let words: Vec<String> = command.split_whitespace().map(Into::into).collect();
            return if words.is_empty() {
                Err(SourceError::Command)
            } else {
                Ok(Secret::Command(words))
            };
        }
        let file = directory.join(text);
        if is_key(text) && !files::named(&file, || file.exists()) {
            return Ok(Secret::Inline);
        }
        Ok(Secret::File(file))
    }

    /// Parses the source of a password, like [`parse`](Self::parse). A word that is not a file may
    /// be the password itself.
    ///
    /// # Errors
    /// See [`parse`](Self::parse).
    pub(crate) fn parse_password(text: &str, directory: &Path) -> Result<Self, SourceError> {
        match Secret::parse(text, directory)? {
            Secret::File(file)
                if !text.contains(['/', '.']) && !files::named(&file, || file.exists()) =>
            {
                Ok(Secret::Inline)
            }
            secret => Ok(secret),
        }
    }

    /// Adds a warning if the secret is in a file that its group can read. [`read`](Self::read) and
    /// [`text`](Self::text) refuse a file that other users can read.
    pub(super) fn warn_of_group(
        &self,
        reader: &mut Reader<'_, '_>,
        line: Option<usize>,
        key: &(impl AsRef<str> + ?Sized),
    ) {
        if let Secret::File(file) = self
            && let Ok(Some(shared)) = check_access(file)
        {
            reader.warning(line, key, format!("{} {shared}", file.display()));
        }
    }

    /// Returns the file that only the server may read: the secret, or the credentials that fetch
    /// it.
    pub(super) fn private_file(&self) -> Option<&Path> {
        match self {
            Secret::File(file) => Some(file),
            Secret::Manager(manager) => manager.credentials(),
            Secret::Credential(_) | Secret::Variable(_) | Secret::Command(_) | Secret::Inline => {
                None
            }
        }
    }

    /// Returns the server that sends the secret over an unencrypted connection, if any.
    pub(super) fn exposed(&self) -> Option<&str> {
        match self {
            Secret::Manager(manager) => manager.exposed(),
            _ => None,
        }
    }

    /// Reads a password, or another secret of one line.
    ///
    /// # Errors
    /// See [`read`](Self::read).
    pub(crate) fn text(&self) -> Result<String, SecretError> {
        let bytes = match self {
            Secret::File(file) => {
                check_access(file)?;
                files::read(file).map_err(|error| match error.kind() {
                    ErrorKind::NotFound => SecretError::Absent(error),
                    _ => SecretError::Read(error),
                })
            }
            other => other.bytes(),
        }?;
        let text = std::str::from_utf8(&bytes)?;
        let text = text.strip_suffix('\n').unwrap_or(text);
        let text = text.strip_suffix('\r').unwrap_or(text);
        match text {
            "" => Err(SecretError::Empty),
            text if text.contains(['\n', '\0']) => Err(SecretError::Lines),
            text => Ok(text.to_owned()),
        }
    }

    /// Reads the key, and converts its bytes.
    ///
    /// # Errors
    /// [`SecretError`], whose text follows [`Display`](fmt::Display) and never contains the secret.
    fn read<K>(
        &self,
        convert: impl FnOnce(&[u8]) -> Result<K, KeyError>,
    ) -> Result<K, SecretError> {
        Ok(convert(&self.bytes()?)?)
    }

    fn bytes(&self) -> Result<Vec<u8>, SecretError> {
        match self {
            Secret::File(file) => Ok(key::bytes_of(file)?),
            Secret::Credential(name) => {
                let directory = std::env::var_os("CREDENTIALS_DIRECTORY");
                let directory = directory.ok_or(SecretError::NoCredentials)?;
                let file = Path::new(&directory).join(name);
                files::read(&file).map_err(|error| match error.kind() {
                    ErrorKind::NotFound => SecretError::NoCredential(error),
                    _ => SecretError::Read(error),
                })
            }
            Secret::Variable(name) => match std::env::var(name) {
                Ok(text) => Ok(text.into_bytes()),
                Err(std::env::VarError::NotPresent) => Err(SecretError::Unset),
                Err(_) => Err(SecretError::VariableNoText),
            },
            Secret::Command(words) => Ok(command::output(words)?),
            Secret::Manager(manager) => Ok(manager.fetch()?),
            Secret::Inline => Err(SecretError::Inline),
        }
    }
}

/// Logs a warning if the group of a secret file can read it.
///
/// # Errors
/// If other users can access the file.
pub(crate) fn check_secret_file(file: &Path) -> anyhow::Result<()> {
    match check_access(file) {
        Ok(None) => {}
        Ok(Some(shared)) => tracing::warn!("{} {shared}", file.display()),
        Err(exposed) => anyhow::bail!("{} {exposed}", file.display()),
    }
    Ok(())
}

/// Returns `true` for PEM, for a seed in base64, and for other texts that look like random bytes in
/// base64 or hexadecimal.
fn is_key(text: &str) -> bool {
    let seed = || base64_simd::STANDARD.decode_to_vec(text);
    let has = |kind: fn(&u8) -> bool| text.bytes().any(|byte| kind(&byte));
    let is_base64 = text.len() >= 22
        && !text.starts_with('/')
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+/-_=".contains(&byte))
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_uppercase);
    let is_hex = text.len() >= 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    text.contains("-----BEGIN") || is_base64 || is_hex || seed().is_ok_and(|seed| seed.len() == 32)
}

/// A key, and the file that only the server may read: the key, or the credentials that fetch it.
pub(super) struct KeyInPlace<K = LogKey> {
    pub(super) key: K,
    pub(super) file: Option<PathBuf>,
}

/// Reads the key of a log from the source in `secret`, or in its old name `seed`.
pub(super) fn key(reader: &mut Reader<'_, '_>) -> Option<Located<KeyInPlace>> {
    let mut name = "secret";
    if !reader.has(name)
        && let Some(old) = reader.text("seed")
    {
        name = "seed";
        reader.warning(old.line, name, "is an old name for `secret`");
    }
    keyed(reader, name, key::from_bytes)
}

/// Reads a key from the source in `name`, and converts its bytes.
pub(super) fn keyed<K>(
    reader: &mut Reader<'_, '_>,
    name: &str,
    convert: impl FnOnce(&[u8]) -> Result<K, KeyError>,
) -> Option<Located<KeyInPlace<K>>> {
    let directory = reader.directory();
    let secret = reader.parse(name, |text| Secret::parse(text, directory));
    let secret = reader.required(name, secret, "rome2026h1.seed.bin")?;
    secret.value.warn_of_group(reader, secret.line, name);
    if let Some(server) = secret.value.exposed() {
        let message =
            format!("comes from {server} without TLS: an eavesdropper can sign with the key");
        reader.warning(secret.line, name, message);
    }
    match secret.value.read(convert) {
        Ok(key) => Some(secret.map(|secret| KeyInPlace {
            key,
            file: secret.private_file().map(Path::to_owned),
        })),
        Err(why) => {
            let message = format!("{} {why}", secret.value);
            reader.problem(secret.line, name, message);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Secret {
        Secret::parse(text, Path::new("/etc/lucarne")).unwrap()
    }

    #[test]
    fn sources_are_told_apart() {
        assert_eq!(parse("a.seed").to_string(), "/etc/lucarne/a.seed");
        assert_eq!(parse("credential:a").to_string(), "credential `a`");
        assert_eq!(parse("env:SEED").to_string(), "environment variable SEED");
        // Arguments may be secret.
        assert_eq!(parse("exec: pass show ct").to_string(), "command `pass`");
        for wrong in ["credential:", "credential:../x", "env:", "exec: "] {
            assert!(Secret::parse(wrong, Path::new("")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_secret_and_its_credentials_are_private_files() {
        for (text, file) in [
            ("a.seed", Some("/etc/lucarne/a.seed")),
            ("credential:a", None),
            ("env:SEED", None),
            ("exec: pass show ct", None),
            ("awssecret://ct/a?profile=ct", None),
            ("gcpsecret://projects/p/secrets/s", None),
            ("gcpsecret://projects/p/secrets/s?credentials=none", None),
            (
                "gcpsecret://projects/p/secrets/s?credentials=ct.json",
                Some("/etc/lucarne/ct.json"),
            ),
        ] {
            assert_eq!(parse(text).private_file(), file.map(Path::new), "{text}");
        }
    }

    #[test]
    fn a_command_gives_the_key_or_says_why_not() {
        let seed = base64_simd::STANDARD.encode_to_string([7; 32]);
        let key = parse(&format!("exec: echo {seed}"))
            .read(key::from_bytes)
            .unwrap();
        let same = LogKey::from_seed(&[7; 32]).unwrap();
        assert_eq!(key.log_id().0, same.log_id().0);
        let why = |text: &str| parse(text).read(key::from_bytes).err().unwrap().to_string();
        assert!(
            why("exec: false").contains("failed"),
            "{}",
            why("exec: false")
        );
        assert!(why("exec: /none/here").contains("cannot be run"));
        let said = why("exec: echo not-a-key");
        assert!(!said.contains("not-a-key"), "{said}");
        assert!(why("env:LUCARNE_NO_SUCH_SEED").contains("is not set"));
    }

    #[test]
    fn a_key_in_place_of_its_source_is_refused_and_never_shown() {
        let seed = base64_simd::STANDARD.encode_to_string([0xfb; 32]);
        assert!(seed.contains('/'));
        for text in [&seed, "-----BEGIN EC PRIVATE KEY----- MHcCAQ"] {
            let secret = parse(text);
            let why = secret.read(key::from_bytes).err().unwrap();
            let message = format!("{secret:?} {secret} {why} {why:?}");
            assert!(matches!(why, SecretError::Inline), "{message}");
            assert!(!message.contains(&text[20..30]), "{message}");
        }
    }

    #[test]
    fn a_password_in_place_of_its_source_is_refused_and_never_shown() {
        let here = Path::new("/etc/lucarne");
        for text in [
            "hunter2",
            "correct horse",
            "c0ffee00c0ffee00c0ffee00c0ffee00",
            "Ab1Ab1Ab1Ab1Ab1Ab1Ab1A",
        ] {
            let secret = Secret::parse_password(text, here).unwrap();
            let why = secret.text().unwrap_err();
            assert!(matches!(why, SecretError::Inline), "{text}: {why}");
            assert!(
                !format!("{secret:?} {secret} {why}").contains(text),
                "{text}"
            );
        }
        for file in ["lock.password", "secrets/lock", "/run/lock"] {
            let secret = Secret::parse_password(file, here).unwrap();
            assert!(matches!(secret, Secret::File(_)), "{file}");
        }
    }

    #[test]
    fn errors_keep_what_caused_them() {
        use std::error::Error;

        let absent = parse("/none/here").text().unwrap_err();
        let absent = absent.source().and_then(|it| it.downcast_ref());
        assert_eq!(absent.map(io::Error::kind), Some(ErrorKind::NotFound));
        let no_program = parse("exec: /none/here")
            .read(key::from_bytes)
            .err()
            .unwrap();
        assert!(no_program.source().unwrap().is::<io::Error>());
        assert!(matches!(
            no_program,
            SecretError::Command(CommandError::Run(_))
        ));
        assert!(no_program.to_string().starts_with("cannot be run: "));
    }

    #[test]
    fn a_password_is_one_line() {
        assert_eq!(parse("exec: echo p@ss word").text().unwrap(), "p@ss word");
        for (command, why) in [
            ("exec: printf \\n", "is empty"),
            ("exec: printf a\\nb", "more than one line"),
            ("/none/here", "does not exist"),
        ] {
            let said = parse(command).text().unwrap_err().to_string();
            assert!(said.contains(why), "{command}: {said}");
        }
    }
}
