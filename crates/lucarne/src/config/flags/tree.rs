//! The flags as the tree of a configuration file. The place of a value is its flag.

use std::fmt::Display;

use lucarne_net::without_secrets;
use lucarne_settings::tree::Entry;
use lucarne_settings::{Node, Report, Value};

/// Flags, each with the key whose value it has. Messages about a key without a value name the first
/// flag of the key.
pub(crate) static FLAGS: [(&str, &str); 33] = [
    ("origin", "shortname"),
    ("origin", "submissionprefix"),
    ("path-prefix", "monitoringprefix"),
    ("private-key", "secret"),
    ("storage-dir", "localdirectory"),
    ("bucket", "s3bucket"),
    ("bucket", "gcsbucket"),
    ("bucket", "azurecontainer"),
    ("checkpoints", "checkpoints"),
    ("db-host", "checkpoints"),
    ("checkpoints-password", "checkpointspassword"),
    ("roots-pem-file", "roots"),
    ("roots-remote-fetch-url", "ccadbroots"),
    ("roots-remote-fetch-url", "rootsurl"),
    ("roots-reject-fingerprints", "refusedroots"),
    ("http-endpoint", "listen"),
    ("max-cert-chain-bytes", "maxbody"),
    ("max-cert-chain-bytes", "http"),
    ("not-after-start", "notafterstart"),
    ("not-after-limit", "notafterlimit"),
    ("checkpoint-interval", "period"),
    ("checkpoint-republish-interval", "checkpointinterval"),
    ("pushback-max-outstanding", "poolsize"),
    ("ext-key-usages", "require"),
    ("accept-sha1-signing-algorithms", "accept_sha1"),
    ("reject-expired", "reject_expired"),
    ("reject-unexpired", "reject_unexpired"),
    ("reject-extension", "reject_extensions"),
    ("tls-certificate", "tls"),
    ("tls-certificate", "certificate"),
    ("tls-key", "key"),
    ("cache", "cache"),
    ("verification", "verification"),
];

/// A map of the tree under construction.
#[derive(Default)]
pub(super) struct Map(Vec<Entry>);

impl Map {
    /// Adds the value of a key, if its flag is given.
    pub(super) fn add(&mut self, key: &str, value: Option<Value>) {
        self.0
            .extend(value.map(|value| entry(line(|of| of.1 == key), key, value)));
    }

    /// Adds the value of a key that several flags have.
    pub(super) fn add_from(&mut self, flag: &str, key: &str, value: Value) {
        self.0
            .push(entry(line(|of| *of == (flag, key)), key, value));
    }

    /// Adds the text of a key, if its flag is given.
    pub(super) fn text(&mut self, key: &str, text: Option<&str>) {
        self.add(key, text.map(scalar));
    }

    /// Adds the list of the values of a key, if its flag is given.
    pub(super) fn list(&mut self, key: &str, values: Vec<Value>) {
        let line = line(|of| of.1 == key);
        let nodes: Vec<_> = values
            .into_iter()
            .map(|value| Node { line, value })
            .collect();
        self.add(key, (!nodes.is_empty()).then_some(Value::List(nodes)));
    }

    pub(super) fn node(self) -> Node {
        Node {
            line: 0,
            value: Value::Map(self.0),
        }
    }

    pub(super) fn value(self) -> Option<Value> {
        (!self.0.is_empty()).then_some(Value::Map(self.0))
    }
}

fn entry(line: usize, key: &str, value: Value) -> Entry {
    Entry::new(key, Node { line, value })
}

/// Returns the line of a flag for a report on flags.
fn line(is_flag: impl Fn(&(&str, &str)) -> bool) -> usize {
    FLAGS.iter().position(is_flag).map_or(0, |index| index + 1)
}

pub(super) fn scalar(text: &str) -> Value {
    Value::Scalar(text.to_owned())
}

/// Returns the spelling of a key's flag in a file. Reports an error, and returns [`Value::Unset`]
/// in this case.
pub(super) fn respelled<E: Display>(
    report: &mut Report,
    key: &str,
    text: &str,
    parser: impl FnOnce(&str) -> Result<String, E>,
) -> Value {
    parser(text).map_or_else(
        |why| {
            report.problem(None, key, format!("`{}` {why}", without_secrets(text)));
            Value::Unset
        },
        Value::Scalar,
    )
}

/// Reports a problem of a flag.
pub(super) fn refused(report: &mut Report, flag: &str, message: impl Into<String>) -> Value {
    report.problem(None, format!("--{flag}"), message);
    Value::Unset
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_in_an_invalid_flag_is_not_shown() {
        let mut report = Report::on_flags(&FLAGS);
        let refuse = |_: &str| Err("has a user name");
        respelled(
            &mut report,
            "shortname",
            "https://u:hush@ct.example/a",
            refuse,
        );
        let said = report.problem_lines().join("\n");
        assert_eq!(
            said,
            "--origin: `https://u:***@ct.example/a` has a user name"
        );
    }

    #[test]
    fn flags_and_their_keys_exist() {
        use clap::{Args, Command};

        use crate::config::Flags;
        use crate::config::keys::{LOG, http, tls, top};

        let command = Flags::augment_args(Command::new("serve"));
        let flags: Vec<_> = command
            .get_arguments()
            .filter_map(|arg| arg.get_long())
            .collect();
        for (flag, key) in FLAGS {
            assert!(flags.contains(&flag), "--{flag}");
            let tables = [&LOG, &top::TABLE, &http::TABLE, &tls::TABLE];
            assert!(tables.iter().any(|table| table.has(key)), "{key}");
        }
    }

    #[test]
    fn a_problem_names_its_flag() {
        let mut report = Report::on_flags(&FLAGS);
        let mut map = Map::default();
        map.add_from("db-host", "checkpoints", scalar("x"));
        let Value::Map(entries) = map.node().value else {
            panic!("not a map");
        };
        report.problem(Some(entries[0].line), "checkpoints", "is wrong");
        report.problem(
            None,
            "logs[a].notafterlimit",
            "must be later than `notafterstart`",
        );
        assert_eq!(
            report.problem_lines(),
            [
                "--db-host: is wrong",
                "--not-after-limit: must be later than --not-after-start"
            ]
        );
    }
}
