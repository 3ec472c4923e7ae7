//! Negotiation of the content coding of a data tile (RFC 9110, section 12.5.3).

/// A content coding of a data tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentCoding {
    /// No coding: the bytes that the specification defines.
    Identity,
    /// gzip: the coding of stored tiles.
    Gzip,
    /// zstd: created in the background from the stored tile.
    Zstd,
}

/// The content codings that a reader accepts, with quality values in thousandths; 0 means
/// "refused".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AcceptedCodings {
    identity: u16,
    gzip: u16,
    zstd: u16,
}

impl AcceptedCodings {
    /// Parses an `Accept-Encoding` header.
    ///
    /// Without the header, gzip is accepted: static-ct-api permits compressed data tiles without
    /// negotiation, and the log stores data tiles in gzip.
    pub(crate) fn parse(header: Option<&[u8]>) -> Self {
        let Some(header) = header else {
            return AcceptedCodings {
                identity: 1,
                gzip: 1000,
                zstd: 0,
            };
        };
        let (mut identity, mut gzip, mut zstd, mut any) = (None, None, None, None);
        for item in header.split(|&b| b == b',') {
            let (name, quality) = split_quality(item);
            let slot = match name {
                n if n.eq_ignore_ascii_case(b"gzip") || n.eq_ignore_ascii_case(b"x-gzip") => {
                    &mut gzip
                }
                n if n.eq_ignore_ascii_case(b"zstd") => &mut zstd,
                n if n.eq_ignore_ascii_case(b"identity") => &mut identity,
                b"*" => &mut any,
                _ => continue,
            };
            *slot = Some(quality);
        }
        AcceptedCodings {
            // Identity is acceptable as the last choice unless it is refused.
            identity: identity.unwrap_or(if any == Some(0) { 0 } else { 1 }),
            gzip: gzip.or(any).unwrap_or(0),
            zstd: zstd.or(any).unwrap_or(0),
        }
    }

    /// Returns the codings in order of preference; the first available one is sent. At equal
    /// quality gzip wins, because data tiles are stored in gzip.
    pub(crate) fn order(self) -> [Option<ContentCoding>; 3] {
        let mut order = [
            (self.gzip, ContentCoding::Gzip),
            (self.zstd, ContentCoding::Zstd),
            (self.identity, ContentCoding::Identity),
        ];
        order.sort_by_key(|&(quality, _)| std::cmp::Reverse(quality));
        order.map(|(quality, coding)| (quality > 0).then_some(coding))
    }

    /// Returns `true` if unencoded bytes may be sent.
    pub(crate) fn identity(self) -> bool {
        self.identity > 0
    }
}

/// Splits `gzip;q=0.5` into its name and its quality in thousandths. An invalid quality counts as
/// 0.
fn split_quality(item: &[u8]) -> (&[u8], u16) {
    let mut parts = item.split(|&b| b == b';');
    let name = parts.next().unwrap_or_default().trim_ascii();
    let quality = parts
        .map(<[u8]>::trim_ascii)
        .find_map(|p| p.strip_prefix(b"q=").or_else(|| p.strip_prefix(b"Q=")))
        .map_or(1000, |value| thousandths(value).unwrap_or(0));
    (name, quality)
}

/// Parses a quality value: `0`, `1`, `0.5`, `0.123`, `1.000` (RFC 9110, section 12.4.2).
fn thousandths(value: &[u8]) -> Option<u16> {
    let (whole, fraction) = match value {
        [whole] => (whole, &[][..]),
        [whole, b'.', fraction @ ..] if fraction.len() <= 3 => (whole, fraction),
        _ => return None,
    };
    let mut quality = match whole {
        b'0' => 0,
        b'1' => 1000,
        _ => return None,
    };
    for (digit, unit) in fraction.iter().zip([100, 10, 1]) {
        quality += u16::from(digit.checked_sub(b'0').filter(|d| *d < 10)?) * unit;
    }
    (quality <= 1000).then_some(quality)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ContentCoding::*;

    fn order(header: &str) -> Vec<ContentCoding> {
        let accepted = AcceptedCodings::parse(Some(header.as_bytes()));
        accepted.order().into_iter().flatten().collect()
    }

    #[test]
    fn without_a_header_the_tile_goes_as_stored() {
        let order: Vec<_> = AcceptedCodings::parse(None)
            .order()
            .into_iter()
            .flatten()
            .collect();
        assert_eq!(order, [Gzip, Identity]);
    }

    #[test]
    fn quality_values_decide() {
        assert_eq!(order("gzip"), [Gzip, Identity]);
        assert_eq!(order("gzip, deflate, br, zstd"), [Gzip, Zstd, Identity]);
        assert_eq!(order("gzip;q=0.5, zstd;q=0.8"), [Zstd, Gzip, Identity]);
        assert_eq!(order("gzip;q=0.5 , identity; q=0.8"), [Identity, Gzip]);
        assert_eq!(order("identity"), [Identity]);
        assert_eq!(order("br"), [Identity]);
        assert_eq!(order(""), [Identity]);
        assert_eq!(order("*"), [Gzip, Zstd, Identity]);
        assert_eq!(order("*;q=0"), []);
        assert_eq!(order("gzip;q=0, *"), [Zstd, Identity]);
        assert_eq!(order("zstd, identity;q=0"), [Zstd]);
        assert_eq!(order("GZIP;Q=1.000"), [Gzip, Identity]);
    }

    #[test]
    fn nonsense_is_not_wanted() {
        assert_eq!(order("gzip;q=2"), [Identity]);
        assert_eq!(order("gzip;q=0.1234"), [Identity]);
        assert_eq!(order("gzip;q=1.1"), [Identity]);
        assert_eq!(order("gzip;q=abc, zstd;q="), [Identity]);
        assert_eq!(order(";;;,,,;q=1"), [Identity]);
    }
}
