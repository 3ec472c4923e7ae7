//! A request to a witness that parses is written with the same bytes, without repeated signature
//! lines.

use crate::witness::{AddCheckpoint, SignSubtree};

pub(crate) fn run(bytes: &[u8]) {
    if let Ok(request) = AddCheckpoint::parse(bytes) {
        let written = request.to_string();
        is_same(bytes, written.as_bytes());
        assert_eq!(AddCheckpoint::parse(written.as_bytes()), Ok(request));
    }
    if let Ok(request) = SignSubtree::parse(bytes) {
        let written = request.to_string();
        is_same(bytes, written.as_bytes());
        assert_eq!(SignSubtree::parse(written.as_bytes()), Ok(request));
    }
}

fn is_same(bytes: &[u8], written: &[u8]) {
    assert!(bytes == written || written.len() < bytes.len());
}
