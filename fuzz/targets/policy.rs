//! The quorum of a policy that parses is met by all witnesses, and by no witness only if the policy
//! needs none.

use lucarne_tlog::Policy;

pub(crate) fn run(bytes: &[u8]) {
    let Ok(policy) = Policy::parse(bytes) else {
        return;
    };
    assert!(policy.quorum_is_met(|_| true));
    let none = |line: &[u8]| line.trim_ascii().ends_with(b"none");
    if policy.quorum_is_met(|_| false) {
        assert!(bytes.split(|byte| *byte == b'\n').any(none));
    }
}
