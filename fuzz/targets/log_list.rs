//! In a log list that parses, each log that the list returns has the ID of its key.

use lucarne_ct::LogList;

pub(crate) fn run(json: &[u8]) {
    let Ok(list) = LogList::parse(json) else {
        return;
    };
    assert!(!list.is_empty());
    for log in list.iter() {
        assert_eq!(log.key.log_id(), log.log_id);
        assert!(list.get(&log.log_id).is_some());
        let _ = log.operator_at(0);
    }
}
