//! Each log of a list for witnesses has another origin, and its key reads back from its text.

use std::collections::HashSet;

use crate::list::LogList;
use crate::logs::TrustedKey;

pub(crate) fn run(bytes: &[u8]) {
    let Ok(list) = LogList::parse(bytes) else {
        return;
    };
    let mut origins = HashSet::new();
    for (origin, key) in &list.logs {
        assert!(origins.insert(origin));
        let again = TrustedKey::parse(origin, &key.to_string()).expect("a written key parses");
        assert!(again.is_same(key));
    }
}
