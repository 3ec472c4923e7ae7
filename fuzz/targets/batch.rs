//! A message between an instance and the leader is the same after encoding and parsing.

use bytes::Bytes;

use crate::forward::{Answer, Batch};

pub(crate) fn run(bytes: &[u8]) {
    let bytes = Bytes::copy_from_slice(bytes);
    if let Some(answer) = Answer::parse(bytes.clone()) {
        assert_eq!(answer.encode(), bytes);
    }
    let Some(batch) = Batch::parse(bytes) else {
        return;
    };
    let written = Batch::encode(&batch.configuration, &batch.items);
    let again = Batch::parse(written).expect("an encoded batch parses");
    assert_eq!(format!("{:?}", again.items), format!("{:?}", batch.items));
    for item in again.items {
        assert_eq!(item.entry.identity, item.entry.signed.identity());
    }
}
