//! The feed: entries as events (`text/event-stream`, HTML section 9.2). The ID of an event is the
//! index of its entry.
//!
//! The log encodes an entry once for all clients. Each round appends its events to the events of
//! the newest tile. The events of full tiles are cached in memory like the tiles themselves.

use std::io;

use bytes::{Bytes, BytesMut};
use lucarne_ct::{
    Certificate, EntryKind, Fingerprint, TileEntries, TileLeafRef, TrimmedEntry, display_name,
};
use lucarne_tlog::Tile;
use lucarne_x509::text::is_control;
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// Maximum number of bytes of names in an event, so that 256 events have at most 4 MiB of names.
/// The event has the number of omitted names.
const MOST_NAME_BYTES: usize = 16 << 10;

/// The JSON data of an event.
#[derive(Serialize)]
struct FeedEntry<'a> {
    /// Index of the entry in the tree.
    index: u64,
    /// Timestamp of the entry in Unix milliseconds.
    timestamp: u64,
    /// The entry type, with its name from RFC 6962 section 3.1.
    kind: &'static str,
    names: Vec<String>,
    /// Number of omitted names.
    #[serde(skip_serializing_if = "is_zero")]
    more_names: usize,
    issuer: String,
    /// SHA-256 of the certificate or precertificate as submitted.
    fingerprint: Option<String>,
    /// SHA-256 of the issuing certificate, which is served at `issuer/<fingerprint>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    issuer_fingerprint: Option<&'a str>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Appends the event of an entry.
fn write_event(leaf: &TileLeafRef<'_>, out: &mut Vec<u8>) -> io::Result<()> {
    let der = leaf.submitted();
    let certificate = der.and_then(|der| Certificate::parse(der).ok());
    let (names, more_names) = bounded(TrimmedEntry::of(leaf).names());
    let issuer_fingerprint = { leaf.fingerprints }
        .next()
        .map(|issuer| issuer.to_string());
    let entry = FeedEntry {
        index: leaf.index,
        timestamp: leaf.timestamp,
        kind: match leaf.kind() {
            EntryKind::X509 => "x509_entry",
            EntryKind::Precert => "precert_entry",
        },
        names,
        more_names,
        issuer: certificate.map_or_else(String::new, |leaf| display_name(leaf.issuer())),
        fingerprint: der.map(|der| Fingerprint::of(der).to_string()),
        issuer_fingerprint: issuer_fingerprint.as_deref(),
    };
    out.extend_from_slice(format!("id: {}\nevent: entry\ndata: ", leaf.index).as_bytes());
    entry.serialize(&mut Serializer::with_formatter(&mut *out, OneLine))?;
    out.extend_from_slice(b"\n\n");
    Ok(())
}

/// JSON without line separators. JSON itself requires escapes for `\n` and `\r` only, but some
/// clients split lines at U+0085, U+2028 and U+2029, too. A name in a certificate could then add
/// lines to an event.
struct OneLine;

impl Formatter for OneLine {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_control(*c)) {
            out.write_all(&rest.as_bytes()[..at])?;
            write!(out, "\\u{:04x}", u32::from(c))?;
            rest = &rest[at + c.len_utf8()..];
        }
        out.write_all(rest.as_bytes())
    }
}

/// Returns the names that fit, and the number of omitted names.
fn bounded(mut names: Vec<String>) -> (Vec<String>, usize) {
    let mut bytes = 0;
    let fits = |name: &&String| {
        bytes += name.len();
        bytes <= MOST_NAME_BYTES
    };
    let fitting = names.iter().take_while(fits).count();
    let more = names.len() - fitting;
    names.truncate(fitting);
    (names, more)
}

/// The events of the first entries of a data tile.
#[derive(Clone, Debug, Default)]
pub(crate) struct TileEvents {
    /// The index of the tile.
    tile: u64,
    /// Number of entries with an event.
    width: u16,
    /// Number of bytes of these entries in the data tile.
    read: usize,
    events: Bytes,
}

impl TileEvents {
    /// Returns the events of a data tile; `None` if these events belong to another tile, or to
    /// fewer entries.
    pub(crate) fn get(&self, tile: Tile) -> Option<Bytes> {
        let there = self.tile == tile.index() && self.width >= tile.width();
        there.then(|| up_to(&self.events, tile.width()))
    }

    /// Appends the events of the missing entries, and returns the events of all `entries` of
    /// `tile`.
    ///
    /// # Errors
    /// If an entry is invalid.
    pub(crate) fn grow(&mut self, tile: Tile, entries: &[u8]) -> io::Result<Bytes> {
        if self.tile != tile.index() || self.width > tile.width() || self.read > entries.len() {
            *self = TileEvents {
                tile: tile.index(),
                ..TileEvents::default()
            };
        }
        let mut new = Vec::new();
        for entry in TileEntries::all(&entries[self.read..], 0) {
            write_event(&entry.map_err(io::Error::other)?.leaf, &mut new)?;
        }
        let mut all = BytesMut::with_capacity(self.events.len() + new.len());
        all.extend_from_slice(&self.events);
        all.extend_from_slice(&new);
        *self = TileEvents {
            tile: tile.index(),
            width: tile.width(),
            read: entries.len(),
            events: all.freeze(),
        };
        Ok(self.events.clone())
    }

    /// Returns whether these events belong to `tile` or to an older tile.
    pub(crate) fn is_before(&self, tile: Tile) -> bool {
        self.tile <= tile.index()
    }
}

/// Returns the first `count` events.
pub(crate) fn up_to(events: &Bytes, count: u16) -> Bytes {
    events.slice(..end_of(events, usize::from(count)))
}

/// Returns all events after the first `count` events.
pub(crate) fn after(events: &Bytes, count: u16) -> Bytes {
    events.slice(end_of(events, usize::from(count))..)
}

/// Returns the end of the `count`th event. An event ends with its only empty line.
fn end_of(events: &[u8], count: usize) -> usize {
    let Some(last) = count.checked_sub(1) else {
        return 0;
    };
    let pairs = events.windows(2).enumerate();
    let mut ends = pairs.filter(|(_, pair)| *pair == b"\n\n");
    ends.nth(last).map_or(events.len(), |(place, _)| place + 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::verified_tiles::tests::entry;
    use lucarne_tlog::Level;

    fn tile(width: u16) -> Tile {
        Tile::new(Level::Data, 0, width).unwrap()
    }

    #[test]
    fn events_grow_and_are_cut() {
        let entries: Vec<u8> = (0..256).flat_map(entry).collect();
        let one = entry(0).len();
        let (mut growing, mut whole) = (TileEvents::default(), TileEvents::default());
        let all = whole.grow(tile(256), &entries).unwrap();
        for width in [1, 3, 200, 256] {
            let part = growing.grow(tile(width), &entries[..usize::from(width) * one]);
            assert_eq!(part.unwrap(), up_to(&all, width));
            assert_eq!(whole.get(tile(width)).unwrap(), up_to(&all, width));
        }
        let rest = after(&all, 255);
        let text = std::str::from_utf8(&rest).unwrap();
        let json = text.strip_prefix("id: 255\nevent: entry\ndata: ").unwrap();
        let event: serde_json::Value = serde_json::from_str(json.trim_end()).unwrap();
        assert_eq!(
            (&event["index"], &event["timestamp"]),
            (&255.into(), &7.into())
        );
        assert_eq!(event["kind"], "x509_entry");
        assert_eq!(after(&all, 0), all);
        assert!(after(&all, 256).is_empty());
        assert!(up_to(&all, 0).is_empty());
    }

    #[test]
    fn names_add_no_line_to_an_event() {
        let name = "a\u{2028}id: 9\u{2029}b\u{85}c\u{202e}d\x7f\n\"ü";
        let mut json = Vec::new();
        let mut serializer = Serializer::with_formatter(&mut json, OneLine);
        name.serialize(&mut serializer).unwrap();
        let json = String::from_utf8(json).unwrap();
        let escaped = r#""a\u2028id: 9\u2029b\u0085c\u202ed\u007f\n\"ü""#;
        assert_eq!(json, escaped);
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), name);
    }

    #[test]
    fn names_are_bounded_in_bytes() {
        let (few, more) = bounded(vec!["a".repeat(8 << 10); 5]);
        assert_eq!((few.len(), more), (2, 3));
        assert_eq!(bounded(vec!["a".into()]), (vec!["a".into()], 0));
    }
}
