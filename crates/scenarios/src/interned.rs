//! Names that plans give, for as long as the process lives.

use std::collections::HashSet;

use parking_lot::Mutex;

/// Metrics and checks are known by names that live for ever, so that a sample
/// costs no copy of one. Those of a plan are as many as its lines: kept once
/// each, they are never given back.
pub(crate) fn intern(name: &str) -> &'static str {
    static NAMES: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    let mut names = NAMES.lock();
    let names = names.get_or_insert_default();
    if let Some(known) = names.get(name) {
        return known;
    }
    let name: &'static str = Box::leak(name.into());
    names.insert(name);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_once() {
        assert!(std::ptr::eq(
            intern("one name"),
            intern(&["one", "name"].join(" "))
        ));
    }
}
