//! Configuration of `lucarne signer`, and the keys of a log that uses a signer.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lucarne_ct::{KeyHolder, given_public_key};
use lucarne_log::{Signer, SignerClient};
use lucarne_settings::{Located, Node, Reader, Report, Section, Value};

use super::keys::identity::KEYS;
use super::keys::signer::{self as file, log as of_log};
#[cfg(feature = "pkcs11")]
use super::secret::Secret;
use super::{secret, tree_of, yaml_of};

/// Remedy for a missing configuration.
const NO_FILE: &str = "name the file with `-c FILE` (default: `signer.yaml` in the working \
                       directory), or write it as in docs/how-to/signer.md";

/// Configuration of a signer.
#[derive(Debug)]
pub(crate) struct SignerConfig {
    /// Socket to listen on.
    pub(crate) socket: PathBuf,
    /// Directory of the signer's memory.
    pub(crate) memory: PathBuf,
    /// IDs of the users whose processes may request signatures.
    pub(crate) users: Vec<u32>,
    /// Origin and key of each log.
    pub(crate) logs: Vec<(String, Box<dyn KeyHolder>)>,
}

impl SignerConfig {
    /// Reads the file at `path`. The configuration is complete only if the report has no problems.
    pub(crate) fn read(path: &Path) -> (Option<Self>, Report) {
        let mut report = Report::on(Some(path));
        let directory = path.parent().unwrap_or(Path::new(""));
        let yaml = yaml_of(path, NO_FILE, &mut report);
        let config = yaml.and_then(|yaml| Self::parse(&yaml, directory, &mut report));
        (config, report)
    }

    fn parse(yaml: &str, directory: &Path, report: &mut Report) -> Option<Self> {
        let root = tree_of(yaml, report)?;
        let top = Section::open(&root, "", &file::TABLE.names(), report)?;
        let logs = logs(&top, directory, report);
        let mut reader = Reader::new(top, "", directory, report);
        let socket = reader.path(&file::KEYS.socket);
        let socket = reader.required(
            &file::KEYS.socket,
            socket,
            "/run/lucarne-signer/signer.sock",
        );
        let memory = reader.path(&file::KEYS.memory);
        let memory = reader.required(&file::KEYS.memory, memory, "/var/lib/lucarne-signer");
        let users = reader.list(&file::KEYS.users, user);
        if users.is_empty() {
            let message = "is missing: list the users whose processes may request signatures, such \
                           as `users: [lucarne]`";
            reader.problem(None, &file::KEYS.users, message);
        }
        Some(Self {
            socket: socket?.value,
            memory: memory?.value,
            users: users.into_iter().map(|user| user.value).collect(),
            logs,
        })
    }
}

fn logs(
    top: &Section<'_>,
    directory: &Path,
    report: &mut Report,
) -> Vec<(String, Box<dyn KeyHolder>)> {
    let Some(Value::List(nodes)) = top.get(&file::KEYS.logs).map(|node| &node.value) else {
        let message = "is missing, or not a list: write one `- origin: …` for each log";
        report.problem(None, "logs", message);
        return Vec::new();
    };
    let read = |(index, node)| log(index, node, directory, report);
    nodes.iter().enumerate().filter_map(read).collect()
}

fn log(
    index: usize,
    node: &Node,
    directory: &Path,
    report: &mut Report,
) -> Option<(String, Box<dyn KeyHolder>)> {
    let path = format!("logs[{index}]");
    let section = Section::open(node, &path, &of_log::TABLE.names(), report)?;
    let mut reader = Reader::new(section, &path, directory, report);
    let origin = reader.parse(&of_log::KEYS.origin, origin);
    let origin = reader.required(&of_log::KEYS.origin, origin, "ct.example/2026h1");
    let key = match reader.path(&of_log::KEYS.module) {
        Some(module) => token(&module, &mut reader),
        None => secret::key(&mut reader).map(|found| Box::new(found.value.key) as _),
    };
    Some((origin?.value, key?))
}

/// Reads `token`, `object` and `pin` of a key in a PKCS #11 token.
#[cfg(feature = "pkcs11")]
fn token(module: &Located<PathBuf>, reader: &mut Reader<'_, '_>) -> Option<Box<dyn KeyHolder>> {
    let label = |text: &str| Ok::<_, std::convert::Infallible>(text.to_owned());
    let token = reader.parse(&of_log::KEYS.token, label);
    let token = reader.required(&of_log::KEYS.token, token, "ct");
    let object = reader.parse(&of_log::KEYS.object, label);
    let object = reader.required(&of_log::KEYS.object, object, "rome2026h1");
    let directory = reader.directory();
    let pin = reader.parse(&of_log::KEYS.pin, |text| {
        Secret::parse_password(text, directory)
    });
    let pin = reader.required(&of_log::KEYS.pin, pin, "credential:pin")?;
    let (token, object) = (token?.value, object?.value);
    let problem = match pin.value.text() {
        Err(why) => (pin.line, "pin", format!("{} {why}", pin.value)),
        Ok(text) => match lucarne_signer::TokenKey::open(&module.value, &token, &object, &text) {
            Ok(key) => return Some(Box::new(key)),
            Err(error) => (module.line, "module", error.to_string()),
        },
    };
    reader.problem(problem.0, problem.1, problem.2);
    None
}

#[cfg(not(feature = "pkcs11"))]
fn token(module: &Located<PathBuf>, reader: &mut Reader<'_, '_>) -> Option<Box<dyn KeyHolder>> {
    let message = "is not supported by this build of lucarne, which has no feature `pkcs11`";
    reader.problem(module.line, &of_log::KEYS.module, message);
    None
}

fn origin(text: &str) -> Result<String, &'static str> {
    if lucarne_tlog::note::is_key_name(text) && !text.contains("://") {
        Ok(text.to_owned())
    } else {
        Err("is not an origin: expected a submission prefix without its scheme and last slash")
    }
}

/// Error: the text is not a known user. The value precedes the text.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a user: expected a name in /etc/passwd, or a number")]
struct UnknownUser;

/// Parses a user ID, or the name of a user of this machine.
fn user(text: &str) -> Result<u32, UnknownUser> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (name == text).then(|| fields.nth(1)?.parse().ok())?
    });
    named.ok_or(UnknownUser)
}

/// Reads `signer` and `publickey` of a log whose key is held by a signer.
pub(super) fn apart(
    socket: Located<PathBuf>,
    reader: &mut Reader<'_, '_>,
) -> Option<Located<Signer>> {
    for key in ["secret", "seed"] {
        if reader.has(key) {
            let message = "cannot be combined with `signer`: remove the key from the server, \
                           because a server with the key can sign what the signer refuses";
            reader.problem(socket.line, key, message);
        }
    }
    let directory = reader.directory();
    let key = reader.parse(&KEYS.publickey, |text| {
        // Base64, or a file whose path is relative to the configuration.
        let beside = directory.join(text);
        let text = if beside.is_file() {
            beside.to_string_lossy().into_owned()
        } else {
            text.to_owned()
        };
        given_public_key(&text).map_err(|error| error.to_string())
    });
    let key = reader.required(&KEYS.publickey, key, "rome2026h1.pub.pem")?;
    match SignerClient::new(&socket.value, key.value) {
        Ok(client) => Some(socket.map(|_| Signer::Apart(Arc::new(client)))),
        Err(error) => {
            reader.problem(key.line, &KEYS.publickey, error.to_string());
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_names_and_numbers() {
        assert_eq!(user("0"), Ok(0));
        assert_eq!(user("root"), Ok(0));
        assert_eq!(user("nobody-of-this-name"), Err(UnknownUser));
        assert_eq!(user("-1"), Err(UnknownUser));
    }

    #[test]
    fn all_problems_are_said() {
        let mut report = Report::on(None);
        let yaml = "socket: s\nlogs: [{origin: 'https://a/b', secret: /none/here}, {}]\nmore: 1\n";
        let config = SignerConfig::parse(yaml, Path::new(""), &mut report);
        assert!(config.is_none());
        let said = report.problem_lines().join("\n");
        for part in [
            "more",
            "memory",
            "users",
            "logs[0].origin",
            "logs[0].secret",
            "logs[1].origin",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}
