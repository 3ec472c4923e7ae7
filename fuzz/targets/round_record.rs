//! A journal record that parses is written with the same bytes.

use bytes::Bytes;

use crate::record::{Record, RecordWriter};

pub(crate) fn run(bytes: &[u8]) {
    let Ok(record) = Record::parse(Bytes::copy_from_slice(bytes)) else {
        return;
    };
    let mut writer = RecordWriter::with_capacity(bytes.len());
    writer.entries().extend_from_slice(&record.entries);
    let issuers = record.issuers.iter().map(|der| der.as_ref());
    let (written, entries) = writer.finish(&record.step, issuers);
    assert_eq!(written, bytes);
    assert_eq!(entries, record.entries);
}
