//! Configuration file of a proxy.

use std::path::Path;

use lucarne_mint::{KeyType, UnknownKeyType};
use lucarne_proxy::{HostPattern, Rule, UpstreamProxy};
use lucarne_settings::values::parsed;
use lucarne_settings::{Node, Reader, Report, Section, Table, Value};

use super::config::{self, Config, Pair, Through, action};
use super::keys::{entries, top};
use crate::config::{Secret, tree_of, yaml_of};

/// Remedy for a missing configuration.
const NO_FILE: &str = "correct the path after `-c`, or omit `-c`: every key has a default \
                       (docs/reference/proxy.md)";

/// Reads the file at `path`, and adds its problems to the report.
pub(super) fn read(path: &Path, report: &mut Report) -> Config {
    let mut config = Config::default();
    let yaml = yaml_of(path, NO_FILE, report);
    if let Some(root) = yaml.and_then(|yaml| tree_of(&yaml, report)) {
        let directory = path.parent().unwrap_or(Path::new(""));
        read_top(&root, directory, &mut config, report);
    }
    config
}

fn read_top(root: &Node, directory: &Path, config: &mut Config, report: &mut Report) {
    let Some(section) = Section::open(root, "", &top::TABLE.names(), report) else {
        return;
    };
    config.rules.rules = rules(&section, report);
    config.own = pairs(&section, "certificates", "certificates", directory, report);
    upstream(&section, directory, config, report);
    limits(&section, directory, config, report);
    har(&section, directory, config, report);
    observe(&section, directory, config, report);
    let mut reader = Reader::new(section, "", directory, report);
    top::read(&mut reader, config);
}

/// Reads the list `rules`, in the order of the file.
fn rules(top: &Section<'_>, report: &mut Report) -> Vec<Rule> {
    let Some(node) = top.get(&top::KEYS.rules) else {
        return Vec::new();
    };
    let Value::List(items) = &node.value else {
        let message = "must be a list: one `- host: …` for each rule";
        report.problem(Some(node.line), "rules", message);
        return Vec::new();
    };
    let read = |(index, item)| rule(index, item, report);
    items.iter().enumerate().filter_map(read).collect()
}

/// Reads the list of certificates under `key`. `path` is the full name of the key.
fn pairs(
    section: &Section<'_>,
    key: &str,
    path: &str,
    directory: &Path,
    report: &mut Report,
) -> Vec<Pair> {
    let Some(node) = section.get(key) else {
        return Vec::new();
    };
    let Value::List(items) = &node.value else {
        let message = "must be a list: one `- certificate: …` for each certificate";
        report.problem(Some(node.line), path, message);
        return Vec::new();
    };
    let read = |(index, item)| pair(item, format!("{path}[{index}]"), directory, report);
    items.iter().enumerate().filter_map(read).collect()
}

fn pair(node: &Node, path: String, directory: &Path, report: &mut Report) -> Option<Pair> {
    use entries::pair::KEYS;

    let section = Section::open(node, &path, &entries::pair::TABLE.names(), report)?;
    let mut reader = Reader::new(section, path, directory, report);
    let hosts = hosts(&mut reader);
    let certificate = reader.path(&KEYS.certificate);
    let certificate = reader.required(&KEYS.certificate, certificate, "server.pem")?;
    let key = reader.path(&KEYS.key).unwrap_or(certificate.clone());
    Some(Pair {
        hosts: hosts?,
        certificate: certificate.value,
        key: key.value,
    })
}

/// Reads the hosts of an entry. The default is all hosts.
fn hosts(reader: &mut Reader<'_, '_>) -> Option<HostPattern> {
    use entries::pair::KEYS;

    if reader.has(&KEYS.host) {
        reader.value(&KEYS.host, parsed)
    } else {
        Some(HostPattern::all())
    }
}

/// Reads `upstream.proxy`: a URL, or a list of proxies for hosts.
fn through(upstream: &Section<'_>, directory: &Path, report: &mut Report) -> Vec<Through> {
    let path = "upstream.proxy";
    let Some(node) = upstream.get("proxy") else {
        return Vec::new();
    };
    match &node.value {
        Value::Scalar(url) => {
            let given = Through::parse(url);
            // The value may contain a password, and is not printed.
            given
                .map_err(|why| report.problem(Some(node.line), path, format!("the URL {why}")))
                .into_iter()
                .collect()
        }
        Value::List(items) => {
            let read = |(index, item)| way(item, format!("{path}[{index}]"), directory, report);
            items.iter().enumerate().filter_map(read).collect()
        }
        _ => way(node, path.to_owned(), directory, report)
            .into_iter()
            .collect(),
    }
}

fn way(node: &Node, path: String, directory: &Path, report: &mut Report) -> Option<Through> {
    use entries::through::KEYS;

    let section = Section::open(node, &path, &entries::through::TABLE.names(), report)?;
    let mut reader = Reader::new(section, path, directory, report);
    let hosts = hosts(&mut reader);
    let url = reader.text(&KEYS.url);
    let url = reader.required(&KEYS.url, url, "http://proxy.example:3128")?;
    let password = reader.parse(&KEYS.password, |text| {
        Secret::parse_password(text, directory)
    });
    let proxy = match config::proxy(url.value) {
        Ok(proxy) => proxy,
        Err(why) => {
            reader.problem(url.line, &KEYS.url, why.to_string());
            return None;
        }
    };
    let lacks = proxy.as_ref().is_some_and(UpstreamProxy::lacks_password);
    if lacks != password.is_some() && !(reader.has(&KEYS.password) && password.is_none()) {
        let why = if lacks {
            "names a user; add `password: FILE`, `env:NAME` or the like"
        } else {
            "has no user, or already has a password: remove `password`"
        };
        reader.problem(url.line, &KEYS.url, why);
        return None;
    }
    Some(Through {
        hosts: hosts?,
        proxy,
        password: password.map(|located| located.value),
    })
}

fn rule(index: usize, node: &Node, report: &mut Report) -> Option<Rule> {
    use entries::rule::KEYS;

    let path = format!("rules[{index}]");
    let section = Section::open(node, &path, &entries::rule::TABLE.names(), report)?;
    let mut reader = Reader::new(section, path, Path::new(""), report);
    let hosts = reader.parse(&KEYS.host, parsed::<HostPattern>);
    let hosts = reader.required(&KEYS.host, hosts, "\"*.example.com\"");
    let act = reader.parse(&KEYS.action, action);
    let act = reader.required(&KEYS.action, act, "tunnel");
    Some(Rule {
        hosts: hosts?.value,
        action: act?.value,
    })
}

fn upstream(top: &Section<'_>, directory: &Path, config: &mut Config, report: &mut Report) {
    use super::keys::upstream as keys;
    let known = |node| Section::open(node, "upstream", &keys::TABLE.names(), report);
    let Some(section) = top.get("upstream").and_then(known) else {
        return;
    };
    config.through = through(&section, directory, report);
    let path = "upstream.certificates";
    config.shown = pairs(&section, "certificates", path, directory, report);
    let mut reader = Reader::new(section, "upstream", directory, report);
    keys::read(&mut reader, config);
}

fn limits(top: &Section<'_>, directory: &Path, config: &mut Config, report: &mut Report) {
    use super::keys::limits as keys;
    let Some(mut reader) = below(top, "limits", &keys::TABLE, directory, report) else {
        return;
    };
    keys::read(&mut reader, &mut config.limits);
}

fn har(top: &Section<'_>, directory: &Path, config: &mut Config, report: &mut Report) {
    use super::keys::har as keys;
    let Some(mut reader) = below(top, "har", &keys::TABLE, directory, report) else {
        return;
    };
    let file = reader.path(&keys::KEYS.file);
    let file = reader.required(&keys::KEYS.file, file, "session.har");
    config.har = file.map(|file| file.value);
    keys::read(&mut reader, config);
}

fn observe(top: &Section<'_>, directory: &Path, config: &mut Config, report: &mut Report) {
    use super::keys::observe as keys;
    let Some(mut reader) = below(top, "observe", &keys::TABLE, directory, report) else {
        return;
    };
    keys::read(&mut reader, config);
}

fn below<'t, 'r>(
    top: &Section<'t>,
    key: &str,
    table: &Table,
    directory: &'r Path,
    report: &'r mut Report,
) -> Option<Reader<'t, 'r>> {
    let section = Section::open(top.get(key)?, key, &table.names(), report)?;
    Some(Reader::new(section, key, directory, report))
}

/// Error: the text is not a key type. The value precedes the text, which does not repeat it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", without_name(.0))]
pub(super) struct KeyTypeError(#[from] UnknownKeyType);

fn without_name(error: &UnknownKeyType) -> String {
    let text = error.to_string();
    let name = format!("{:?} ", error.0);
    text.trim_start_matches(&name).to_owned()
}

pub(super) fn key_type(text: &str) -> Result<KeyType, KeyTypeError> {
    Ok(text.parse::<KeyType>()?)
}
