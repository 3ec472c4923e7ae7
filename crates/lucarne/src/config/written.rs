//! Fingerprints of settings. A reload compares these to find the changed keys.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use lucarne_settings::{Section, Value};

/// The keys of a section, each with a hash of its value. The values themselves are not kept,
/// because some of them are passwords.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written(BTreeMap<&'static str, u64>);

impl Written {
    /// Reads the values of `keys` that the section or its fallback has.
    pub(super) fn of(section: &Section<'_>, keys: impl IntoIterator<Item = &'static str>) -> Self {
        let hashed = keys.into_iter().filter_map(|key| {
            let mut hasher = DefaultHasher::new();
            hash(&section.get(key)?.value, &mut hasher);
            Some((key, hasher.finish()))
        });
        Written(hashed.collect())
    }

    /// Returns the keys whose values differ, in alphabetical order.
    pub(crate) fn changed(&self, now: &Written) -> Vec<&'static str> {
        let keys = self.0.keys().chain(now.0.keys()).copied();
        let mut changed: Vec<_> = keys
            .filter(|key| self.0.get(key) != now.0.get(key))
            .collect();
        changed.sort_unstable();
        changed.dedup();
        changed
    }
}

/// Hashes a value without its lines. The order of a map has no meaning.
fn hash(value: &Value, hasher: &mut DefaultHasher) {
    value.kind().hash(hasher);
    match value {
        Value::Nothing | Value::Unset => {}
        Value::Scalar(text) => text.hash(hasher),
        Value::List(nodes) => {
            nodes.len().hash(hasher);
            for node in nodes {
                hash(&node.value, hasher);
            }
        }
        Value::Map(entries) => {
            let mut entries: Vec<_> = entries.iter().collect();
            entries.sort_by(|one, other| one.key.cmp(&other.key));
            entries.len().hash(hasher);
            for entry in entries {
                entry.key.hash(hasher);
                hash(&entry.value.value, hasher);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use lucarne_settings::{Report, tree};

    use super::*;

    const KEYS: [&str; 3] = ["backlog", "period", "roots"];

    fn written(yaml: &str) -> Written {
        let root = tree::parse(yaml).unwrap();
        let mut report = Report::on(None);
        let section = Section::open(&root, "", &KEYS, &mut report).unwrap();
        Written::of(&section, KEYS)
    }

    #[test]
    fn only_values_count_and_not_their_lines_or_order() {
        let before = written("period: 20\nbacklog: {rate: 1, pool: 2}\n");
        let moved = written("# a comment\nbacklog:\n  pool: 2\n  rate: 1\nperiod: \"20\"\n");
        assert_eq!(before.changed(&moved), [""; 0]);
        let after = written("period: 30\nbacklog: {rate: 1}\nroots: r.pem\n");
        assert_eq!(before.changed(&after), ["backlog", "period", "roots"]);
        assert_eq!(after.changed(&before), ["backlog", "period", "roots"]);
    }
}
