//! The source of a log's key, `secret`, or of a lock's password,
//! `checkpointspassword`.

use std::fmt;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lucarne_ct::LogKey;

/// The time that a command may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// More than any key has.
const MOST: u64 = 64 << 10;

/// The place of a log's key, or of a password. Nothing of it is secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Secret {
    /// In a file.
    File(PathBuf),
    /// A credential that systemd hands to the service.
    Credential(String),
    /// In an environment variable.
    Variable(String),
    /// In the output of a command.
    Command(Vec<String>),
    /// In a cloud's keeping.
    Manager(super::manager::Manager),
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
        }
    }
}

impl Secret {
    /// Reads what `secret` says; a path is relative to `directory`.
    ///
    /// # Errors
    /// In words that follow the value.
    pub(crate) fn parse(text: &str, directory: &Path) -> Result<Self, String> {
        if let Some(manager) = super::manager::Manager::parse(text, directory) {
            return manager.map(Secret::Manager);
        }
        if let Some(name) = text.strip_prefix("credential:") {
            return match name.is_empty() || name.contains('/') {
                true => Err("names no credential: write `credential:NAME`".into()),
                false => Ok(Secret::Credential(name.into())),
            };
        }
        if let Some(name) = text.strip_prefix("env:") {
            return match name.is_empty() || name.contains(['=', ' ']) {
                true => Err("names no environment variable: write `env:NAME`".into()),
                false => Ok(Secret::Variable(name.into())),
            };
        }
        if let Some(command) = text.strip_prefix("exec:") {
            let words: Vec<String> = command.split_whitespace().map(Into::into).collect();
            return match words.is_empty() {
                true => Err("has no command: write `exec: command arguments`".into()),
                false => Ok(Secret::Command(words)),
            };
        }
        Ok(Secret::File(directory.join(text)))
    }

    /// The file, if it is one that others may be able to read.
    pub(super) fn file(&self) -> Option<&Path> {
        match self {
            Secret::File(file) => Some(file),
            _ => None,
        }
    }

    /// The server that it comes from openly, for everybody on the way to read.
    pub(super) fn exposed(&self) -> Option<&str> {
        match self {
            Secret::Manager(manager) => manager.exposed(),
            _ => None,
        }
    }

    /// Gets a password, or whatever else is one line of text.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn text(&self) -> Result<String, String> {
        let bytes = match self {
            Secret::File(file) => std::fs::read(file).map_err(|error| match error.kind() {
                ErrorKind::NotFound => "does not exist".to_owned(),
                _ => format!("cannot be read: {error}"),
            }),
            other => other.bytes(),
        }?;
        let text = std::str::from_utf8(&bytes).map_err(|_| "is no text")?;
        let text = text.strip_suffix('\n').unwrap_or(text);
        let text = text.strip_suffix('\r').unwrap_or(text);
        match text {
            "" => Err("is empty".into()),
            text if text.contains(['\n', '\0']) => Err("is more than one line".into()),
            text => Ok(text.to_owned()),
        }
    }

    /// Gets the key.
    ///
    /// # Errors
    /// What is wrong, in words that follow [`Display`](fmt::Display). They
    /// never show the secret.
    pub(crate) fn read(&self) -> Result<LogKey, String> {
        let bytes = self.bytes()?;
        super::key::from_bytes(&bytes)
    }

    fn bytes(&self) -> Result<Vec<u8>, String> {
        match self {
            Secret::File(file) => super::key::bytes_of(file),
            Secret::Credential(name) => {
                let directory = std::env::var_os("CREDENTIALS_DIRECTORY").ok_or(
                    "is not there: CREDENTIALS_DIRECTORY is not set. The service needs \
                     `LoadCredential=` (see systemd.exec)",
                )?;
                let file = Path::new(&directory).join(name);
                std::fs::read(file).map_err(|error| match error.kind() {
                    ErrorKind::NotFound => {
                        "is not there: the service needs `LoadCredential=` of this name".to_owned()
                    }
                    _ => format!("cannot be read: {error}"),
                })
            }
            Secret::Variable(name) => match std::env::var(name) {
                Ok(text) => Ok(text.into_bytes()),
                Err(std::env::VarError::NotPresent) => Err("is not set".into()),
                Err(_) => Err("is no text (a key is given in base64, or PEM)".into()),
            },
            Secret::Command(words) => output(words),
            Secret::Manager(manager) => manager.fetch(),
        }
    }
}

/// Returns the output of a command, if it succeeds in time.
fn output(words: &[String]) -> Result<Vec<u8>, String> {
    let (program, arguments) = words.split_first().ok_or("is empty")?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(|error| format!("cannot be run: {error}"))?;
    let printed = child.stdout.take().ok_or("prints nothing")?;
    // A command that goes on silently must not hold this up: it is killed, and
    // its output ends.
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = printed.take(MOST).read_to_end(&mut bytes).map(|_| bytes);
        // Nobody waits any more for a command that took too long.
        let _ = sender.send(read);
    });
    let status = finished(&mut child)?;
    if !status.success() {
        return Err(format!("failed ({status}); what it said is above"));
    }
    // What it started may still hold its output open.
    let bytes = receiver.recv_timeout(PATIENCE);
    let bytes = bytes.map_err(|_| "leaves its output open".to_owned())?;
    bytes.map_err(|error| format!("cannot be read: {error}"))
}

fn finished(child: &mut Child) -> Result<std::process::ExitStatus, String> {
    let start = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if start.elapsed() < PATIENCE => {
                // Polled: a child cannot be waited for with a deadline.
                std::thread::sleep(Duration::from_millis(10));
            }
            Ok(None) => {
                // It may have ended in this very moment.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("did not end within {} s", PATIENCE.as_secs()));
            }
            Err(error) => return Err(format!("cannot be waited for: {error}")),
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
    fn a_command_gives_the_key_or_says_why_not() {
        let seed = base64_simd::STANDARD.encode_to_string([7; 32]);
        let key = parse(&format!("exec: echo {seed}")).read().unwrap();
        let same = LogKey::from_seed(&[7; 32]).unwrap();
        assert_eq!(key.log_id().0, same.log_id().0);
        let why = |text: &str| parse(text).read().err().unwrap();
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
    fn a_password_is_one_line() {
        assert_eq!(parse("exec: echo p@ss word").text().unwrap(), "p@ss word");
        for (command, why) in [
            ("exec: printf \\n", "is empty"),
            ("exec: printf a\\nb", "more than one line"),
            ("/none/here", "does not exist"),
        ] {
            let said = parse(command).text().unwrap_err();
            assert!(said.contains(why), "{command}: {said}");
        }
    }
}
