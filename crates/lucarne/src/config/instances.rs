//! `instances`: settings of this process as one of several instances of a log.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lucarne_http::{InstanceClient, InstanceKey};
use lucarne_log::{Instances, Signer};
use lucarne_settings::{Located, Reader, Report};

use super::keys;
use super::keys::instances::{KEYS, inside};
use super::place::{DataPlace, LockPlace};
use super::secret::Secret;

/// Addresses and key for the communication between the instances of a log.
#[derive(Clone, Debug)]
pub struct InstanceSettings {
    /// Address at which the other instances reach this instance, as `host:port`.
    pub address: String,
    /// Address to listen on for the other instances.
    pub listen: String,
    /// Key that all instances share.
    pub key: InstanceKey,
    /// File with `key`, or with the credentials that fetch `key`; `None` for other sources.
    pub key_file: Option<Located<PathBuf>>,
    /// Time without a message after which a leader is replaced.
    pub lease: Duration,
}

impl InstanceSettings {
    /// Returns the settings for the `log` crate.
    pub(crate) fn config(&self) -> Instances {
        Instances {
            address: self.address.clone(),
            lease: self.lease,
            messenger: Arc::new(InstanceClient::new(self.key.clone())),
        }
    }
}

/// Reads `instances` of a log with this data place and this key.
pub(super) fn read(
    reader: &mut Reader<'_, '_>,
    data: Option<&DataPlace>,
    signer: Option<&Signer>,
) -> Option<Located<InstanceSettings>> {
    let node = reader.node(&KEYS.instances)?;
    let line = Some(node.line);
    if let Some(DataPlace::Directory(_)) = data {
        let message = "requires a log in a bucket: a directory belongs to one process, and other \
                       machines would see its changes too late";
        reader.problem(line, &KEYS.instances, message);
    }
    if let Some(Signer::Apart(_)) = signer {
        let message = "cannot be combined with `signer`: a signer remembers the trees of one \
                       instance, and would refuse to extend those of another instance";
        reader.problem(line, &KEYS.instances, message);
    }
    let mut map = keys::inside(reader, &KEYS.instances, &inside::TABLE)?;
    let keys = &inside::KEYS;
    let address = map.parse(&keys.address, address);
    let address = map.required(&keys.address, address, "10.0.0.1:6963");
    let listen = map.parse(&keys.listen, |text: &str| {
        address_to_listen(text)
            .then(|| text.to_owned())
            .ok_or("is not an address: write `:6963`, or `10.0.0.1:6963`")
    });
    let lease = map.get(&keys.lease);
    let key = shared_key(&mut map);
    let (address, (key, key_file)) = (address?.value, key?);
    Some(Located {
        value: InstanceSettings {
            listen: listen.map_or_else(|| address.clone(), |listen| listen.value),
            address,
            key,
            key_file,
            lease: lease.unwrap_or(Instances::LEASE),
        },
        line,
    })
}

/// Reads `key` from any source of a secret. Also returns the file that only the server may read.
fn shared_key(reader: &mut Reader<'_, '_>) -> Option<(InstanceKey, Option<Located<PathBuf>>)> {
    use inside::KEYS;

    let directory = reader.directory();
    let secret = reader.parse(&KEYS.key, |text| Secret::parse_password(text, directory));
    let secret = reader.required(&KEYS.key, secret, "credential:instances")?;
    secret.value.warn_of_group(reader, secret.line, &KEYS.key);
    let text = match secret.value.text() {
        Ok(text) => text,
        Err(why) => {
            reader.problem(secret.line, &KEYS.key, format!("{} {why}", secret.value));
            return None;
        }
    };
    match InstanceKey::new(&text) {
        Ok(key) => {
            let file = secret.value.private_file().map(|file| Located {
                value: file.to_owned(),
                line: secret.line,
            });
            Some((key, file))
        }
        Err(why) => {
            reader.problem(secret.line, &KEYS.key, format!("{} {why}", secret.value));
            None
        }
    }
}

/// Refuses settings that conflict with several instances: a lock that other instances cannot reach,
/// and `handover`, because the next process would listen on the same address. `logs` has the key
/// and the line of each log with instances.
pub(super) fn fit(
    lock: &Located<LockPlace>,
    hands_over: bool,
    logs: impl IntoIterator<Item = (String, Option<usize>)>,
    report: &mut Report,
) {
    for (key, line) in logs {
        if let LockPlace::Sqlite(path) = &lock.value {
            let message = format!(
                "requires a lock that all instances share, but {} is an SQLite database for one \
                 process: use PostgreSQL, MariaDB, MySQL or a bucket in `checkpoints`",
                path.display()
            );
            report.problem(line, &key, message);
        }
        if hands_over {
            let message = "cannot be combined with `handover`: remove `handover`; a stopped \
                           instance hands over to another instance";
            report.problem(line, &key, message);
        }
    }
}

/// Parses `host:port`, an address that the other instances can reach.
fn address(text: &str) -> Result<String, &'static str> {
    const NONE: &str = "is not an address that other machines can reach: write `host:port`";
    let (host, port) = text.rsplit_once(':').ok_or(NONE)?;
    let usual = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
    let is_host = !host.is_empty() && host.len() <= 253 && host.chars().all(usual);
    match port.parse::<u16>() {
        Ok(1..) if is_host => Ok(text.to_owned()),
        _ => Err(NONE),
    }
}

/// Returns whether the text is `:port` or `host:port`.
fn address_to_listen(text: &str) -> bool {
    let port = text.strip_prefix(':').map(str::parse::<u16>);
    port.is_some_and(|port| port.is_ok()) || address(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_of_one_process_and_a_handover_are_refused() {
        let lock = Located::new(LockPlace::Sqlite("lock.db".into()), 2);
        let mut report = Report::on(None);
        let log = ("logs[a].instances".to_owned(), Some(7));
        fit(&lock, true, [log], &mut report);
        let said = report.problem_lines().join("\n");
        assert!(said.contains("lock.db is an SQLite database"), "{said}");
        assert!(
            said.contains("cannot be combined with `handover`"),
            "{said}"
        );
        assert_eq!(report.problems().len(), 2, "{said}");
    }
}
