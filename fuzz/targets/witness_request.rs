//! A request to a witness that parses is written with the same bytes.

use crate::witness::{AddCheckpoint, SignSubtree};

pub(crate) fn run(bytes: &[u8]) {
    if let Ok(request) = AddCheckpoint::parse(bytes) {
        assert_eq!(request.to_string().as_bytes(), bytes);
    }
    if let Ok(request) = SignSubtree::parse(bytes) {
        assert_eq!(request.to_string().as_bytes(), bytes);
    }
}
