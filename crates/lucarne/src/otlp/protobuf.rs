//! Encoder of protobuf messages, and a reader of responses.
//!
//! OTLP is a stable format, and responses have few fields. Numbers of fields are from
//! `opentelemetry-proto`.

/// Wire type of integers with variable length.
const VARINT: u64 = 0;
/// Wire type of 64-bit values.
const FIXED64: u64 = 1;
/// Wire type of texts, bytes and messages.
const BYTES: u64 = 2;

/// A message. Fields are in the order of their calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Message(Vec<u8>);

impl Message {
    pub(super) fn varint(mut self, field: u64, value: u64) -> Self {
        self.push(field << 3 | VARINT);
        self.push(value);
        self
    }

    pub(super) fn fixed(mut self, field: u64, value: u64) -> Self {
        self.push(field << 3 | FIXED64);
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(super) fn double(self, field: u64, value: f64) -> Self {
        self.fixed(field, value.to_bits())
    }

    pub(super) fn bytes(mut self, field: u64, value: &[u8]) -> Self {
        self.push(field << 3 | BYTES);
        self.push(value.len() as u64);
        self.0.extend(value);
        self
    }

    pub(super) fn text(self, field: u64, value: &str) -> Self {
        self.bytes(field, value.as_bytes())
    }

    pub(super) fn message(self, field: u64, value: &Message) -> Self {
        self.bytes(field, &value.0)
    }

    /// Adds a repeated field.
    pub(super) fn messages(self, field: u64, values: impl IntoIterator<Item = Message>) -> Message {
        let add = |message: Message, value| message.message(field, &value);
        values.into_iter().fold(self, add)
    }

    /// Adds a packed field of 64-bit values.
    pub(super) fn packed(self, field: u64, values: impl IntoIterator<Item = u64>) -> Self {
        let values: Vec<u8> = values.into_iter().flat_map(u64::to_le_bytes).collect();
        self.bytes(field, &values)
    }

    /// Appends the fields of another message.
    pub(super) fn append(mut self, other: &Message) -> Self {
        self.0.extend(&other.0);
        self
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn push(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

/// Fields of a received message, in order. The fields end at the first invalid byte.
pub(super) struct Fields<'m>(pub(super) &'m [u8]);

/// The value of a received field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'m> {
    Number(u64),
    Bytes(&'m [u8]),
}

impl<'m> Iterator for Fields<'m> {
    /// The number of a field, and its value.
    type Item = (u64, Value<'m>);

    fn next(&mut self) -> Option<Self::Item> {
        let key = self.varint()?;
        let value = match key & 7 {
            VARINT => Value::Number(self.varint()?),
            FIXED64 => Value::Number(u64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            BYTES => {
                let length = self.varint()?;
                Value::Bytes(self.take(length)?)
            }
            _ => return None,
        };
        Some((key >> 3, value))
    }
}

impl<'m> Fields<'m> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, count: u64) -> Option<&'m [u8]> {
        let count = usize::try_from(count).ok()?;
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }
}

/// Returns a `KeyValue` with a text.
pub(super) fn attribute(key: &str, value: &str) -> Message {
    let value = Message::default().text(1, value);
    Message::default().text(1, key).message(2, &value)
}

/// Returns a `KeyValue` with a number.
pub(super) fn number(key: &str, value: u64) -> Message {
    let value = Message::default().varint(3, value);
    Message::default().text(1, key).message(2, &value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the encoding in the documentation of protobuf.
    #[test]
    fn fields_have_their_wire_format() {
        let number = Message::default().varint(1, 150);
        assert_eq!(number.clone().into_bytes(), [0x08, 0x96, 0x01]);
        let text = Message::default().text(2, "testing");
        assert_eq!(text.into_bytes(), *b"\x12\x07testing");
        let inside = Message::default().message(3, &number);
        assert_eq!(inside.into_bytes(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
        let fixed = Message::default().fixed(7, 1);
        assert_eq!(fixed.into_bytes(), [0x39, 1, 0, 0, 0, 0, 0, 0, 0]);
        let packed = Message::default().packed(6, [2]);
        assert_eq!(packed.into_bytes(), [0x32, 8, 2, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn fields_are_read_up_to_the_first_invalid_byte() {
        let bytes = Message::default()
            .varint(1, 150)
            .fixed(7, 1)
            .text(2, "testing")
            .into_bytes();
        let all = [
            (1, Value::Number(150)),
            (7, Value::Number(1)),
            (2, Value::Bytes(b"testing")),
        ];
        assert!(Fields(&bytes).eq(all));
        for end in 0..bytes.len() {
            let read: Vec<_> = Fields(&bytes[..end]).collect();
            assert_eq!(read, all[..read.len()]);
        }
        assert_eq!(Fields(&[0xff; 20]).next(), None);
        assert_eq!(Fields(b"{\"partialSuccess\":{}}").next(), None);
    }
}
