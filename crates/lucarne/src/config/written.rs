//! Fingerprints of settings. A reload compares the fingerprints to find the changed keys.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use lucarne_settings::{AnyKey, Section, Value};

/// The keys of a section, each with a hash of its value and with its line. The values themselves
/// are not kept, because some of them are passwords.
#[derive(Clone, Debug, Default)]
pub struct Written(BTreeMap<&'static str, (u64, usize)>);

impl Written {
    /// Reads the values of `keys` that the section or its fallback has.
    pub(super) fn of(section: &Section<'_>, keys: &[&'static dyn AnyKey]) -> Self {
        let hashed = keys.iter().filter_map(|key| {
            let name = key.about().name;
            let mut hasher = DefaultHasher::new();
            let node = section.get(name)?;
            hash(&node.value, Some(*key), &mut hasher);
            Some((name, (hasher.finish(), node.line)))
        });
        Written(hashed.collect())
    }

    /// Returns the line of the value of a key, if it has one.
    pub(crate) fn line(&self, key: &str) -> Option<usize> {
        self.0.get(key).map(|(_, line)| *line)
    }

    /// Returns the keys whose values differ, in alphabetical order.
    pub(crate) fn changed(&self, now: &Written) -> Vec<&'static str> {
        let keys = self.0.keys().chain(now.0.keys()).copied();
        let mut changed: Vec<_> = keys.filter(|key| self.hash(key) != now.hash(key)).collect();
        changed.sort_unstable();
        changed.dedup();
        changed
    }

    fn hash(&self, key: &str) -> Option<u64> {
        self.0.get(key).map(|(hash, _)| *hash)
    }
}

/// Hashes a value without its lines. Neither the order of a map nor the spelling of a duration or
/// size changes the hash.
fn hash(value: &Value, key: Option<&dyn AnyKey>, hasher: &mut DefaultHasher) {
    value.kind().hash(hasher);
    match value {
        Value::Nothing | Value::Unset => {}
        Value::Scalar(text) => {
            let with_unit = key.and_then(|key| key.with_unit(text));
            with_unit.as_ref().unwrap_or(text).hash(hasher);
        }
        Value::List(nodes) => {
            nodes.len().hash(hasher);
            for node in nodes {
                hash(&node.value, key, hasher);
            }
        }
        Value::Map(entries) => {
            let mut entries: Vec<_> = entries.iter().collect();
            entries.sort_by(|one, other| one.key.cmp(&other.key));
            entries.len().hash(hasher);
            let keys = key.and_then(|key| key.shape().table());
            let keys = keys.map(|table| table.keys()).unwrap_or_default();
            for entry in entries {
                entry.key.hash(hasher);
                let key = keys.iter().find(|key| key.about().name == entry.key);
                hash(&entry.value.value, key.copied(), hasher);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use lucarne_settings::{Report, tree};

    use super::*;
    use crate::config::keys::{roots, top};
    use crate::config::rounds;

    const KEYS: [&str; 6] = [
        "backlog",
        "period",
        "roots",
        "http",
        "checkpoints",
        "mirror",
    ];

    fn written(yaml: &str) -> Written {
        let root = tree::parse(yaml).unwrap();
        let mut report = Report::on(None);
        let section = Section::open(&root, "", &KEYS, &mut report).unwrap();
        let keys: [&dyn AnyKey; 6] = [
            &rounds::KEYS.backlog,
            &rounds::KEYS.period,
            &roots::KEYS.roots,
            &top::KEYS.http,
            &top::KEYS.checkpoints,
            &top::KEYS.mirror,
        ];
        Written::of(&section, &keys)
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

    /// A log that is added to a mirror needs a restart.
    #[test]
    fn the_logs_of_a_mirror_are_compared() {
        let mirror = |logs: &str| written(&format!("mirror: {{name: m, logs: [{logs}]}}\n"));
        let before = mirror("{key: a}");
        assert_eq!(before.changed(&mirror("{key: a}")), [""; 0]);
        for after in ["{key: a}, {key: b}", "{key: a, from: c}"] {
            assert_eq!(before.changed(&mirror(after)), ["mirror"]);
        }
    }

    #[test]
    fn the_spelling_of_a_duration_or_size_has_no_meaning() {
        let before = written("period: 1000\nhttp: {headertimeout: 10000, maxbody: 524288}\n");
        let after = written("period: 1s\nhttp: {maxbody: 512KiB, headertimeout: 10s}\n");
        assert_eq!(before.changed(&after), [""; 0]);
        let other = written("period: 1s\nhttp: {maxbody: 512KiB, headertimeout: 11s}\n");
        assert_eq!(before.changed(&other), ["http"]);
    }
}
