//! A message between an instance and the leader is the same after encoding and parsing.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

// The target includes this file instead of its crate, because the crate depends on two databases.
#[allow(dead_code)]
#[path = "../../crates/log/src/submit/forward_wire.rs"]
mod wire;

use wire::{Answer, Batch};

fuzz_target!(|bytes: &[u8]| {
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
});
