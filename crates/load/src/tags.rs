//! Interned sets of tags.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;

use parking_lot::RwLock;

/// An interned set of tags, which always includes `scenario`. Valid within the run of its recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tags(pub(crate) u32);

/// Pairs of name and value in ascending order, each name once.
pub(crate) type TagSet = Arc<[(String, String)]>;

/// Limit of distinct sets.
const MOST: usize = 4096;

/// Tag sets of a run. The index of a set is its number.
#[derive(Debug, Default)]
pub(crate) struct TagRegistry(RwLock<Sets>);

#[derive(Debug, Default)]
struct Sets {
    by_number: Vec<TagSet>,
    numbers: HashMap<TagSet, Tags>,
}

impl TagRegistry {
    /// Returns a scenario's base tags.
    pub(crate) fn base(&self, scenario: &str, tags: &[(String, String)]) -> Tags {
        let mut set = Vec::new();
        tags.iter()
            .for_each(|(name, value)| insert(&mut set, name, value));
        // The tag `scenario` identifies scenarios, so a plan cannot override it.
        insert(&mut set, "scenario", scenario);
        set.sort();
        let mut sets = self.0.write();
        sets.number(set.into())
    }

    /// Returns a scenario's base tags with further tags.
    pub(crate) fn extend(&self, base: Tags, extra: &[(&str, &str)]) -> Tags {
        let Some(set) = self.get(base).filter(|_| !extra.is_empty()) else {
            return base;
        };
        let mut set = set.to_vec();
        for (name, value) in extra {
            // The tag `scenario` cannot be overridden.
            if *name != "scenario" {
                insert(&mut set, name, value);
            }
        }
        set.sort();
        let mut sets = self.0.write();
        let set: TagSet = set.into();
        if sets.by_number.len() >= MOST && !sets.numbers.contains_key(&set) {
            return base;
        }
        sets.number(set)
    }

    pub(crate) fn get(&self, tags: Tags) -> Option<TagSet> {
        self.0.read().by_number.get(tags.0 as usize).cloned()
    }
}

impl Sets {
    fn number(&mut self, set: TagSet) -> Tags {
        if let Some(tags) = self.numbers.get(&set) {
            return *tags;
        }
        let tags = Tags(self.by_number.len() as u32);
        self.by_number.push(set.clone());
        self.numbers.insert(set, tags);
        tags
    }
}

fn insert(set: &mut Vec<(String, String)>, name: &str, value: &str) {
    match set.iter_mut().find(|(known, _)| known == name) {
        Some((_, old)) => *old = value.into(),
        None => set.push((name.into(), value.into())),
    }
}

/// Returns whether a tag distinguishes parts of a scenario: `op`, `endpoint`, `step`, the tags of
/// the plan. `handshake` and `expected_response` state the result of a request.
pub(crate) fn distinguishes_parts(name: &str) -> bool {
    !matches!(name, "handshake" | "expected_response")
}

/// Formats a metric and its tags as in thresholds: `http_reqs{scenario:write,op:add-chain}`.
pub(crate) fn key<T: Display>(metric: &str, tags: &[(T, T)]) -> String {
    if tags.is_empty() {
        return metric.to_owned();
    }
    let pairs = tags.iter().map(|(name, value)| format!("{name}:{value}"));
    format!("{metric}{{{}}}", pairs.collect::<Vec<_>>().join(","))
}

/// Returns whether `tags` contain all of `wanted`.
pub(crate) fn has(tags: &[(String, String)], wanted: &[(&str, &str)]) -> bool {
    wanted.iter().all(|(name, value)| {
        tags.iter()
            .any(|(known, its)| known == name && its == value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_interned_and_never_leave_their_scenario() {
        let registry = TagRegistry::default();
        let base = registry.base(
            "write",
            &[("scenario".into(), "read".into()), ("a".into(), "1".into())],
        );
        let one = registry.extend(base, &[("op", "get"), ("a", "2"), ("scenario", "other")]);
        assert_eq!(registry.extend(base, &[("a", "2"), ("op", "get")]), one);
        assert_eq!(registry.extend(base, &[]), base);
        let set: Vec<_> = registry
            .get(one)
            .unwrap()
            .iter()
            .map(|(n, v)| format!("{n}={v}"))
            .collect();
        assert_eq!(set, ["a=2", "op=get", "scenario=write"]);
    }

    #[test]
    fn their_number_is_bounded() {
        let registry = TagRegistry::default();
        let base = registry.base("s", &[]);
        let last = (0..2 * MOST)
            .map(|n| registry.extend(base, &[("n", &n.to_string())]))
            .last();
        assert_eq!(
            (last, registry.0.read().by_number.len()),
            (Some(base), MOST)
        );
        assert_ne!(registry.extend(base, &[("n", "1")]), base);
    }
}
