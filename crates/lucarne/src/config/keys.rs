//! All keys of the configuration files, and keys in files of other log software.
//!
//! Each key is defined once: its name, form, default and documentation. The tables in `docs/` are
//! generated from these definitions, see [`documented`](crate::documentation::documented).

pub(crate) mod acceptance;
pub(crate) mod http;
pub(crate) mod identity;
pub(crate) mod instances;
pub(crate) mod metadata;
pub(crate) mod mirror;
pub(crate) mod mirrored_log;
pub(crate) mod operator;
pub(crate) mod otlp;
pub(crate) mod read_limits;
pub(crate) mod roots;
pub(crate) mod signer;
pub(crate) mod storage;
pub(crate) mod tls;
pub(crate) mod top;
pub(crate) mod witness;

use super::flags::tree::FLAGS;
use lucarne_settings::{Node, Reader, Report, Section, Table, Value, join, nearest};

/// Mark in the documentation for keys that have the same name and meaning in Sunlight.
pub(super) const SUNLIGHT: &str = "**S**";

/// All keys of a log.
pub(crate) static LOG: Table = Table::join(&[
    &identity::TABLE,
    &storage::TABLE,
    &roots::TABLE,
    &super::rounds::TABLE,
    &instances::TABLE,
    &acceptance::TABLE,
    &metadata::TABLE,
]);

/// All keys of a mirror.
pub(crate) static MIRROR: Table = Table::join(&[&mirror::TABLE, &storage::TABLE]);

/// Keys that identify one log, which `defaults` must not contain.
pub(super) static OWN: Table = Table::join(&[&identity::TABLE, &metadata::own::TABLE]);

/// Keys of a log that `defaults` may set for all logs.
static SHARED: Table = Table::join(&[
    &storage::TABLE,
    &roots::TABLE,
    &super::rounds::TABLE,
    &instances::TABLE,
    &acceptance::TABLE,
    &metadata::shared::TABLE,
]);

/// A generated table of the documentation.
pub struct Documented {
    /// Page below `docs/`.
    pub page: &'static str,
    /// Name of the table in the markers of the page.
    pub name: &'static str,
    /// The table in Markdown.
    pub markdown: String,
}

/// Returns the generated tables of the keys of the server and of the signer.
pub fn documented() -> Vec<Documented> {
    let server = [
        ("top", &top::TABLE),
        ("tls", &tls::TABLE),
        ("http", &http::TABLE),
        ("read_limits", &read_limits::TABLE),
        ("operator", &operator::TABLE),
        ("otlp", &otlp::TABLE),
        ("witness", &witness::TABLE),
        ("mirror", &mirror::TABLE),
        ("mirrored_log", &mirrored_log::TABLE),
        ("identity", &identity::TABLE),
        ("storage", &storage::TABLE),
        ("roots", &roots::TABLE),
        ("rounds", &super::rounds::TABLE),
        ("instances", &instances::TABLE),
        ("acceptance", &acceptance::TABLE),
        ("metadata", &metadata::TABLE),
    ];
    let server = server.map(|(name, table)| Documented {
        page: "reference/configuration.md",
        name,
        markdown: table.to_markdown(Some("")),
    });
    let signer = Documented {
        page: "how-to/signer.md",
        name: "signer",
        markdown: signer::TABLE.to_markdown(None),
    };
    let mut all = Vec::from(server);
    all.push(signer);
    all
}

/// Keys that name the place of a log's data.
pub(super) const PLACES: [&str; 4] = ["localdirectory", "s3bucket", "gcsbucket", "azurecontainer"];

/// Returns the key that names a bucket, for another key of the same kind of bucket.
pub(super) fn bucket_of(key: &str) -> Option<&'static str> {
    let kinds = [
        ("s3", "s3bucket"),
        ("gcs", "gcsbucket"),
        ("azure", "azurecontainer"),
    ];
    let (_, bucket) = kinds.iter().find(|(prefix, _)| key.starts_with(prefix))?;
    (key != *bucket).then_some(*bucket)
}

/// Returns the flag for a key of the configuration file, for messages.
pub(super) fn flag_of(key: &str) -> String {
    format!(
        "--{}",
        lucarne_settings::flag_of(&FLAGS, key).unwrap_or(key)
    )
}

const ETAGS3: &str = "is Sunlight's lock in an object store: write it as \
     `checkpoints: s3://bucket/prefix?region=…&endpoint=…`";
const DYNAMODB: &str = "is not supported: write `checkpoints` with the path of an SQLite database, \
                        or the URL of MySQL, PostgreSQL or an object store";
/// Keys at the top level of Sunlight's file that must not be ignored, with advice.
const FOREIGN_TOP: &[(&str, &str)] = &[("etags3", ETAGS3), ("dynamodb", DYNAMODB)];

/// Keys of a log in Sunlight's file that must not be ignored, with advice.
const FOREIGN_LOG: &[(&str, &str)] = &[(
    "key",
    "is an old name for `secret`, which takes a seed file or a PEM key",
)];

/// Keys at the top level of Sunlight's file that have no meaning in Lucarne.
pub(super) const IGNORED_TOP: Advised = &[
    (
        "acme",
        "is ignored: Lucarne does not request certificates. Use certbot (docs/how-to/tls.md) or \
         another ACME client and configure the files in `tls`, or terminate TLS in front; until then, the addresses in `listen` are \
         served without TLS",
    ),
    (
        "name",
        "is ignored: the pages are named after each log's `description`",
    ),
    (
        "homeredirect",
        "is ignored: the key belongs to Sunlight's read server, and Lucarne serves its own page",
    ),
];

const PREFIX: &str = "is ignored: the URL in `submissionprefix` has this part";

/// Keys of a log in Sunlight's file that have no meaning in Lucarne.
pub(super) const IGNORED_LOG: Advised = &[("httphost", PREFIX), ("httpprefix", PREFIX)];

const FROM_LOCK: &str = "is ignored: Lucarne serves the checkpoints from the lock";
const NO_MIRROR: &str = "is ignored: the witness is not a mirror";

/// Keys of a witness in Sunlight's file that have no meaning in Lucarne.
pub(super) const IGNORED_WITNESS: Advised = &[
    ("s3bucket", FROM_LOCK),
    ("s3region", FROM_LOCK),
    ("s3endpoint", FROM_LOCK),
    ("s3keyprefix", FROM_LOCK),
    ("mirrorname", NO_MIRROR),
    ("mirrorloglists", NO_MIRROR),
];

/// Keys, each with the advice for its message.
pub(super) type Advised = &'static [(&'static str, &'static str)];

/// Returns the keys of other log software in the map at `path`: the ignored keys and the refused
/// keys.
fn of_others(path: &str) -> (Advised, Advised) {
    match path {
        "" => (IGNORED_TOP, FOREIGN_TOP),
        path if path.starts_with("logs[") && path.ends_with(']') => (IGNORED_LOG, FOREIGN_LOG),
        "defaults" => (&[], FOREIGN_LOG),
        "witness" => (IGNORED_WITNESS, &[]),
        _ => (&[], &[]),
    }
}

/// Opens the map under `key`, which has the keys of `table`.
pub(super) fn inside<'t, 'r>(
    reader: &'r mut Reader<'t, '_>,
    key: &(impl AsRef<str> + ?Sized),
    table: &Table,
) -> Option<Reader<'t, 'r>> {
    let node = reader.node(key)?;
    entry(reader, key, node, table)
}

/// Opens the map `node` in the list under `key`.
pub(super) fn entry<'t, 'r>(
    reader: &'r mut Reader<'t, '_>,
    key: &(impl AsRef<str> + ?Sized),
    node: &'t Node,
    table: &Table,
) -> Option<Reader<'t, 'r>> {
    let (path, directory) = (reader.path_of(key), reader.directory());
    let section = open(node, &path, table, reader.report())?;
    Some(Reader::new(section, path, directory, reader.report()))
}

/// Opens `node` as a map with the keys of `table`. Warns about ignored keys, and reports others
/// with advice.
pub(super) fn open<'t>(
    node: &'t Node,
    path: &str,
    table: &Table,
    report: &mut Report,
) -> Option<Section<'t>> {
    let (ignored, foreign) = of_others(path);
    if let Value::Map(entries) = &node.value {
        for entry in entries {
            if let Some((key, why)) = ignored.iter().find(|(key, _)| *key == entry.key) {
                report.warning(Some(entry.line), join(path, key), *why);
            }
        }
    }
    let known = table.names();
    let taken = [known.clone(), ignored.iter().map(|it| it.0).collect()].concat();
    let advice = |key: &str, _: &[&str]| match foreign.iter().find(|(name, _)| *name == key) {
        Some((_, advice)) => (*advice).to_owned(),
        None => unknown(key, &known),
    };
    Section::open_advised(node, path, &taken, advice, report)
}

/// Returns the advice for a key that is not in `known`.
fn unknown(key: &str, known: &[&str]) -> String {
    match nearest(key, known) {
        Some(near) => format!("no such key; did you mean `{near}`?"),
        None if LOG.has(key) => "no such key here; it belongs to a log, under `logs:`".to_owned(),
        None if top::TABLE.has(key) => {
            "no such key here; it belongs at the top of the file".to_owned()
        }
        None => lucarne_settings::unknown(key, known),
    }
}

/// Asserts that the documented default of each key begins with the applied default.
#[cfg(test)]
pub(crate) fn assert_defaults(table: &Table) {
    for key in table.keys() {
        let about = key.about();
        if let Some(applied) = about.applied_default() {
            let documented = about.plain_default();
            assert!(
                documented.starts_with(&applied),
                "{}: {applied}",
                about.name
            );
        }
        if let Some(inside) = key.shape().table() {
            assert_defaults(inside);
        }
    }
}

#[cfg(test)]
mod tests {
    use lucarne_settings::tree;

    use super::*;

    #[test]
    fn the_documented_defaults_are_those_of_the_program() {
        assert_defaults(&top::TABLE);
    }

    #[test]
    fn advice_about_keys_of_others_is_given_where_they_stand() {
        let said = |path: &str, table: &Table, yaml: &str| {
            let root = tree::parse(yaml).unwrap();
            let mut report = Report::on(None);
            open(&root, path, table, &mut report);
            report.problem_lines().join("\n")
        };
        assert!(said("", &top::TABLE, "dynamodb: {}").contains("is not supported"));
        assert!(said("logs[a]", &LOG, "key: k").contains("is an old name for `secret`"));
        for (path, table) in [
            ("http", &http::TABLE),
            ("logs[a].backlog", &crate::config::rounds::backlog::TABLE),
        ] {
            let said = said(path, table, "{key: k, dynamodb: {}, httphost: h}");
            assert_eq!(said.matches("no such key").count(), 3, "{said}");
        }
    }
}
