//! A message between an instance and the leader parses to the value that was written.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

// The file alone, because its crate depends on two databases.
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
    let again = Batch::parse(written).expect("what was written is read");
    assert_eq!(format!("{:?}", again.items), format!("{:?}", batch.items));
    for item in again.items {
        assert_eq!(item.entry.identity, item.entry.signed.identity());
    }
});
