//! A journal record that parses is written with the same bytes.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

// The target includes this file instead of its crate, because the crate depends on two databases.
// `record` uses this module.
#[path = "../../crates/log/src/error/record_error.rs"]
mod error;

#[allow(dead_code)]
#[path = "../../crates/log/src/data/record.rs"]
mod record;

use record::{Record, RecordWriter};

fuzz_target!(|bytes: &[u8]| {
    let Ok(record) = Record::parse(Bytes::copy_from_slice(bytes)) else {
        return;
    };
    let mut writer = RecordWriter::with_capacity(bytes.len());
    writer.entries().extend_from_slice(&record.entries);
    let issuers = record.issuers.iter().map(|der| der.as_ref());
    let (written, entries) = writer.finish(&record.step, issuers);
    assert_eq!(written, bytes);
    assert_eq!(entries, record.entries);
});
