//! Names from plans that live as long as the process.

use std::collections::HashSet;

use parking_lot::Mutex;

/// Returns a static copy of `name`. Metrics and checks have static names, so that a sample copies
/// no name. A plan has a limited number of names; each is stored once and never freed.
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
