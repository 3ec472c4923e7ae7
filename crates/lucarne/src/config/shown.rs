//! The effective value of every key, each with its place in the file.

use std::path::Path;

use lucarne_net::without_secrets;
use lucarne_settings::form::Parsed;
use lucarne_settings::{AnyKey, Key, Node, Report, Section, Table, Value, join, tree};

use super::keys::{self, metadata, roots};
use super::{Config, DataPlace, LogSettings};

/// Default of a key whose map has defaults of its own.
const BELOW: &str = "below";

/// Returns a line for every key of the process and of these logs: `key: value  # place`. Values
/// contain no passwords. `yaml` is the text of the file at `path`.
pub(crate) fn lines(
    yaml: &str,
    path: &Path,
    config: &Config,
    logs: &[&LogSettings],
) -> Vec<String> {
    let Ok(root) = tree::parse(yaml) else {
        return Vec::new();
    };
    let mut page = Page {
        file: path.display().to_string(),
        lock: config.checkpoints.value.to_string(),
        lines: Vec::new(),
    };
    let Some(top) = open(&root, &keys::top::TABLE) else {
        return Vec::new();
    };
    for key in keys::top::TABLE.keys() {
        if !["defaults", "logs"].contains(&key.about().name) {
            page.add_key("", key, Some(&top), None);
        }
    }
    let defaults = top.get("defaults").and_then(|node| open(node, &keys::LOG));
    let nodes = match top.get("logs").map(|node| &node.value) {
        Some(Value::List(nodes)) => nodes.as_slice(),
        _ => &[],
    };
    for log in logs {
        let sections = nodes.iter().filter_map(|node| open(node, &keys::LOG));
        for section in sections.filter(|section| is_named(section, &log.shortname.value)) {
            page.add_log(section.or(defaults), log);
        }
    }
    page.lines
}

/// Opens a map whose problems were reported before.
fn open<'t>(node: &'t Node, table: &Table) -> Option<Section<'t>> {
    Section::open(node, "", &table.names(), &mut Report::on(None))
}

fn is_named(section: &Section<'_>, name: &str) -> bool {
    let node = section.get("shortname");
    node.is_some_and(|node| matches!(&node.value, Value::Scalar(text) if text == name))
}

/// Returns `true` if `name` is a place of data in `defaults`, or a setting of this place, and the
/// log has a place of its own.
fn is_replaced(section: &Section<'_>, name: &str) -> bool {
    let is_own = |key: &str| section.get(key).is_some() && !section.inherited(key);
    let place = keys::bucket_of(name).unwrap_or(name);
    keys::PLACES.contains(&place)
        && section.inherited(place)
        && keys::PLACES.into_iter().any(is_own)
}

struct Page {
    file: String,
    /// Place of the lock without its password.
    lock: String,
    lines: Vec<String>,
}

impl Page {
    fn add_log(&mut self, section: Section<'_>, log: &LogSettings) {
        let path = log.key_path("");
        for key in keys::LOG.keys() {
            let name = key.about().name;
            if is_replaced(&section, name) {
                if keys::bucket_of(name).is_none() {
                    self.add_key(&path, key, None, Some(log));
                }
                continue;
            }
            let is_old = key.about().default() == "–";
            let of_another = keys::bucket_of(name).is_some_and(|it| section.get(it).is_none());
            if section.get(name).is_some() || !(is_old || of_another) {
                self.add_key(&path, key, Some(&section), Some(log));
            }
        }
    }

    /// Adds the value of a key in `section`, or its default.
    fn add_key(
        &mut self,
        path: &str,
        key: &dyn AnyKey,
        section: Option<&Section<'_>>,
        log: Option<&LogSettings>,
    ) {
        let about = key.about();
        let path = join(path, about.name);
        if let Some((section, node)) = section.and_then(|it| Some((it, it.get(about.name)?))) {
            let inherited = section.inherited(about.name);
            return self.add_node(&path, key, node, inherited);
        }
        if let Some(table) = key.shape().table()
            && about.default() == BELOW
        {
            for key in table.keys() {
                self.add_key(&path, key, None, log);
            }
            return;
        }
        let value = log.and_then(|log| derived(about.name, log));
        let value = value.unwrap_or_else(|| usual(&about.plain_default(), section, log));
        self.lines.push(format!("{path}: {value}  # default"));
    }

    /// Adds a value of the file.
    fn add_node(&mut self, path: &str, key: &dyn AnyKey, node: &Node, inherited: bool) {
        let table = key.shape().table();
        match (&node.value, table) {
            (Value::Map(_), Some(table)) => {
                let section = open(node, table);
                for key in table.keys() {
                    let name = key.about().name;
                    match section.as_ref().and_then(|section| section.get(name)) {
                        Some(node) => self.add_node(&join(path, name), key, node, inherited),
                        None => self.add_key(path, key, section.as_ref(), None),
                    }
                }
            }
            (Value::List(nodes), Some(_)) => {
                for (index, node) in nodes.iter().enumerate() {
                    self.add_node(&format!("{path}[{index}]"), key, node, inherited);
                }
            }
            (value, _) => {
                let value = match (path, value) {
                    ("checkpoints", _) => self.lock.clone(),
                    (_, Value::Scalar(text)) => {
                        key.with_unit(text).unwrap_or_else(|| text_of(value))
                    }
                    _ => text_of(value),
                };
                let of_all = if inherited { ", in `defaults`" } else { "" };
                let place = format!("{}:{}{of_all}", self.file, node.line);
                self.lines.push(format!("{path}: {value}  # {place}"));
            }
        }
    }
}

/// Returns the default of a key that follows from other settings of the log.
fn derived(key: &str, log: &LogSettings) -> Option<String> {
    let ccadb = log.roots.ccadb.as_ref().map(|ccadb| &ccadb.value);
    match key {
        "description" => Some(log.description.clone()),
        "monitoringprefix" => Some(log.monitoring.value.url.clone()),
        "cache" => Some(log.cache.value.display().to_string()),
        "intended_use" => word_of(
            &metadata::shared::KEYS.intended_use,
            &log.metadata.intended_use,
        ),
        "ccadbroots" => match ccadb {
            Some(ccadb) => word_of(&roots::KEYS.ccadbroots, &ccadb.programme),
            None => Some("none".to_owned()),
        },
        "rootsurl" => {
            Some(ccadb.map_or_else(|| "none".to_owned(), |ccadb| without_secrets(&ccadb.source)))
        }
        _ => None,
    }
}

/// Returns the word of a value.
fn word_of<F: Parsed>(key: &Key<F>, value: &F::Value) -> Option<String> {
    Some(key.form.show(value).replace('`', ""))
}

/// Returns the effective default. `default` is a value, two values (the second for a bucket), or
/// the name of another key in `section` whose value applies.
fn usual(default: &str, section: Option<&Section<'_>>, log: Option<&LogSettings>) -> String {
    if let Some(node) = section.and_then(|section| section.get(default)) {
        return text_of(&node.value);
    }
    let in_bucket = log.is_some_and(|log| matches!(log.data.value, DataPlace::Bucket(_)));
    let both = default.split_once("; ");
    let both = both.and_then(|(one, other)| Some((one, other.strip_suffix(" in a bucket")?)));
    let value = match both {
        Some((_, value)) if in_bucket => value,
        Some((value, _)) => value,
        None => default,
    };
    let has_none = |start: &&str| value.starts_with(start);
    if value.is_empty() || ["required", "this, or", "–"].iter().any(has_none) {
        "none".to_owned()
    } else {
        value.to_owned()
    }
}

/// Formats a value of the file without passwords.
fn text_of(value: &Value) -> String {
    match value {
        Value::Nothing | Value::Unset => "none".to_owned(),
        Value::Scalar(text) => shown(text),
        Value::List(nodes) => {
            let items = nodes.iter().map(|node| text_of(&node.value));
            format!("[{}]", items.collect::<Vec<_>>().join(", "))
        }
        Value::Map(_) => "a map".to_owned(),
    }
}

/// Replaces the secrets of a URL, and the arguments of a command that prints a secret.
fn shown(text: &str) -> String {
    if let Some(command) = text.strip_prefix("exec:") {
        let program = command.split_whitespace().next().unwrap_or_default();
        return format!("exec: {program} …");
    }
    without_secrets(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        for (text, shown) in [
            ("exec: vault read --token abc", "exec: vault …"),
            (
                "https://u:secret@roots.example/x",
                "https://u:***@roots.example/x",
            ),
            (
                "https://hush@roots.example/x?token=hush",
                "https://***@roots.example/x?token=***",
            ),
            ("https://roots.example/x?y=1", "https://roots.example/x?y=1"),
            ("roots.pem", "roots.pem"),
            ("env:KEY", "env:KEY"),
        ] {
            assert_eq!(super::shown(text), shown);
        }
    }

    #[test]
    fn a_default_is_a_value() {
        assert_eq!(usual("200ms; 1s in a bucket", None, None), "200ms");
        assert_eq!(
            usual("a quarter of poolsize", None, None),
            "a quarter of poolsize"
        );
        assert_eq!(usual("required with signer", None, None), "none");
        let root = tree::parse("address: a.example:1").unwrap();
        let section = open(&root, &keys::instances::inside::TABLE);
        assert_eq!(usual("address", section.as_ref(), None), "a.example:1");
    }
}
