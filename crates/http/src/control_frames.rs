//! Floods of HTTP/2 control frames: SETTINGS and PING, which cost the server a response each.
//!
//! h2 limits resets and the size of heads, but neither of these frames. They need no request, so no
//! other limit applies to them.

use std::time::{Duration, Instant};

/// The frames that an HTTP/2 client sends, of which only the headers are examined (RFC 9113,
/// section 4.1).
pub(crate) struct ControlFrames {
    header: [u8; HEADER],
    /// Number of bytes in `header`.
    filled: usize,
    /// Number of bytes before the next header: the payload of a frame, or the client's preface.
    skip: usize,
    /// Number of control frames since `since`.
    count: u32,
    since: Instant,
}

const HEADER: usize = 9;
/// Length of the client's preface (RFC 9113, section 3.4).
const PREFACE: usize = 24;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
/// Maximum number of control frames within [`WINDOW`]. Clients that measure the bandwidth of a
/// connection send at most one PING in each round trip.
const MAX: u32 = 1000;
const WINDOW: Duration = Duration::from_secs(5);

impl ControlFrames {
    pub(crate) fn new() -> Self {
        ControlFrames {
            header: [0; HEADER],
            filled: 0,
            skip: PREFACE,
            count: 0,
            since: Instant::now(),
        }
    }

    /// Examines the next bytes from the client. Returns `true` for a flood.
    pub(crate) fn read(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            let taken = (HEADER - self.filled).min(bytes.len());
            self.header[self.filled..self.filled + taken].copy_from_slice(&bytes[..taken]);
            self.filled += taken;
            bytes = &bytes[taken..];
            if self.filled == HEADER {
                self.filled = 0;
                let [high, middle, low, kind, ..] = self.header;
                self.skip = u32::from_be_bytes([0, high, middle, low]) as usize;
                if matches!(kind, SETTINGS | PING) && self.is_flood() {
                    return true;
                }
            }
        }
        false
    }

    fn is_flood(&mut self) -> bool {
        self.count += 1;
        if self.count <= MAX {
            return false;
        }
        // The clock is read only once for this number of frames.
        let now = Instant::now();
        let is_flood = now.duration_since(self.since) < WINDOW;
        (self.count, self.since) = (0, now);
        is_flood
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, length: u8) -> Vec<u8> {
        let mut frame = vec![0, 0, length, kind, 0, 0, 0, 0, 1];
        frame.resize(HEADER + usize::from(length), PING);
        frame
    }

    #[test]
    fn only_settings_and_pings_count() {
        let mut frames = ControlFrames::new();
        assert!(!frames.read(&[PING; PREFACE]));
        let (data, ping) = (frame(0, 200).repeat(2000), frame(PING, 8));
        // Frames are found at any boundary of the bytes.
        for part in data.chunks(7) {
            assert!(!frames.read(part));
        }
        assert_eq!(frames.count, 0);
        for byte in ping.chunks(1).chain(frame(SETTINGS, 0).chunks(1)) {
            assert!(!frames.read(byte));
        }
        assert_eq!(frames.count, 2);
        assert!(!frames.read(&ping.repeat(MAX as usize - 2)));
        assert!(frames.read(&ping));
    }

    #[test]
    fn frames_over_a_longer_time_are_no_flood() {
        let mut frames = ControlFrames::new();
        frames.skip = 0;
        let earlier = frames.since.checked_sub(WINDOW).unwrap();
        frames.since = earlier;
        assert!(!frames.read(&frame(PING, 8).repeat(MAX as usize + 1)));
        assert!(frames.since > earlier);
    }
}
