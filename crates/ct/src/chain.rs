//! A submitted chain in one buffer, decoded directly from the JSON body.

use std::fmt;

use bytes::Bytes;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::rejection::{Code, Rejection};

/// Limits on a body, checked before the body is parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainLimits {
    /// Maximum length of the body in bytes.
    pub max_body: usize,
}

impl Default for ChainLimits {
    fn default() -> Self {
        Self {
            max_body: 512 * 1024,
        }
    }
}

/// A submitted chain: the leaf, then its issuers. The chain is one buffer with the end of each
/// certificate; the certificates are not parsed. A chain has at least one certificate.
///
/// # Examples
///
/// ```
/// use lucarne_ct::{Chain, ChainLimits, Code};
///
/// let limits = ChainLimits::default();
/// let chain = Chain::decode_json(br#"{"chain":["AQID","BAU="]}"#, &limits)?;
/// assert_eq!((chain.len(), chain.leaf()), (2, &[1, 2, 3][..]));
///
/// let refused = Chain::decode_json(br#"{"chain":[]}"#, &limits).unwrap_err();
/// assert_eq!(refused.code, Code::EmptyChain);
/// # Ok::<(), lucarne_ct::Rejection>(())
/// ```
#[derive(Clone)]
pub struct Chain {
    bytes: Bytes,
    ends: Vec<u32>,
}

impl Chain {
    /// Decodes the body of `add-chain` and `add-pre-chain`: `{"chain":["base64",…]}` (RFC 6962,
    /// section 4.1). Unknown fields are ignored. White space in the base64 (which is escaped in
    /// JSON) and missing padding are tolerated.
    ///
    /// # Errors
    /// [`Code::BodyTooLarge`], [`Code::InvalidJson`], [`Code::MissingChain`],
    /// [`Code::EmptyChain`], [`Code::InvalidBase64`], [`Code::InvalidCertificate`] for an
    /// empty element.
    pub fn decode_json(body: &[u8], limits: &ChainLimits) -> Result<Self, Rejection> {
        if body.len() > limits.max_body {
            return Err(Rejection::new(
                Code::BodyTooLarge,
                format!(
                    "the body has {} bytes; expected at most {}",
                    body.len(),
                    limits.max_body
                ),
            ));
        }
        let mut decoder = Decoder::new(body.len());
        let mut json = serde_json::Deserializer::from_slice(body);
        let outcome = decoder.deserialize(&mut json).and_then(|()| json.end());
        match (decoder.rejection, outcome) {
            (Some(rejection), _) => Err(rejection),
            (None, Err(error)) => Err(Rejection::new(
                Code::InvalidJson,
                format!("the body is not {{\"chain\":[\"base64\",…]}}: {error}"),
            )),
            (None, Ok(())) => {
                // The JSON parser checks all values except those of ignored fields.
                if decoder.ignores {
                    check_utf8(body)?;
                }
                Self::new(decoder.bytes, decoder.ends)
            }
        }
    }

    /// Creates the chain of these certificates, leaf first.
    ///
    /// # Errors
    /// [`Code::EmptyChain`]; [`Code::BodyTooLarge`] for 4 GiB or more.
    pub fn from_ders<D: AsRef<[u8]>>(ders: impl IntoIterator<Item = D>) -> Result<Self, Rejection> {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for der in ders {
            bytes.extend_from_slice(der.as_ref());
            ends.push(u32::try_from(bytes.len()).map_err(|_| {
                Rejection::new(Code::BodyTooLarge, "the chain is larger than 4 GiB")
            })?);
        }
        Self::new(bytes, Some(ends))
    }

    fn new(bytes: Vec<u8>, ends: Option<Vec<u32>>) -> Result<Self, Rejection> {
        let accepted = "expected {\"chain\":[leaf, its issuer, …]}, each in base64";
        match ends {
            None => Err(Rejection::new(
                Code::MissingChain,
                format!("the body has no chain; {accepted}"),
            )),
            Some(ends) if ends.is_empty() => Err(Rejection::new(
                Code::EmptyChain,
                format!("the chain is empty; {accepted}"),
            )),
            Some(ends) => Ok(Self {
                bytes: Bytes::from(bytes),
                ends,
            }),
        }
    }

    /// Returns the number of certificates, at least 1.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the leaf.
    pub fn leaf(&self) -> &[u8] {
        &self.bytes[..self.leaf_end()]
    }

    /// Returns the certificates, leaf first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |end| {
            let end = *end as usize;
            let certificate = &self.bytes[start..end];
            start = end;
            certificate
        })
    }

    /// Returns the leaf, which shares the buffer of the chain.
    pub(crate) fn leaf_bytes(&self) -> Bytes {
        self.bytes.slice(..self.leaf_end())
    }

    /// Returns the bytes after the leaf in one slice, and the ends of the certificates. The slice
    /// and the ends determine the certificates.
    pub(crate) fn tail(&self) -> (&[u8], &[u32]) {
        (&self.bytes[self.leaf_end()..], &self.ends)
    }

    fn leaf_end(&self) -> usize {
        self.ends.first().map_or(0, |end| *end as usize)
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Chain({} certificates, {} bytes)",
            self.len(),
            self.bytes.len()
        )
    }
}

/// Collects the certificates while the JSON is parsed. The first rejection is stored here, because
/// an error that passes through the JSON parser loses everything except its text.
struct Decoder {
    bytes: Vec<u8>,
    /// `None` until the field `chain` was found.
    ends: Option<Vec<u32>>,
    /// Whether a field was ignored.
    ignores: bool,
    rejection: Option<Rejection>,
}

impl Decoder {
    fn new(body: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(body / 4 * 3),
            ends: None,
            ignores: false,
            rejection: None,
        }
    }

    fn reject<E: de::Error>(&mut self, rejection: Rejection) -> E {
        let error = E::custom(&rejection.detail);
        self.rejection = Some(rejection);
        error
    }

    fn push<E: de::Error>(&mut self, index: usize, base64: &[u8]) -> Result<u32, E> {
        let before = self.bytes.len();
        if let Err(error) = decode_base64(base64, &mut self.bytes) {
            let detail = error.to_string();
            return Err(self.reject(Rejection::of(index, Code::InvalidBase64, detail)));
        }
        if self.bytes.len() == before {
            let detail = "expected a certificate, found an empty element";
            return Err(self.reject(Rejection::of(index, Code::InvalidCertificate, detail)));
        }
        Ok(self.bytes.len() as u32)
    }
}

/// Refuses a body that is not UTF-8 (RFC 8259, section 8.1).
fn check_utf8(body: &[u8]) -> Result<(), Rejection> {
    match std::str::from_utf8(body) {
        Ok(_) => Ok(()),
        Err(error) => Err(Rejection::new(
            Code::InvalidJson,
            format!("the body is not UTF-8, which JSON requires: {error}"),
        )),
    }
}

/// The reasons why an element of a chain is not base64.
#[derive(Debug, thiserror::Error)]
enum Base64Error {
    #[error("not base64 at character {0}; expected A–Z a–z 0–9 + / =")]
    Character(usize),
    #[error("not base64: a wrong number of characters")]
    Length,
}

/// Decodes strictly, which is fast. If that fails, decodes tolerantly.
fn decode_base64(base64: &[u8], out: &mut Vec<u8>) -> Result<(), Base64Error> {
    let before = out.len();
    if base64_simd::STANDARD.decode_append(base64, out).is_ok() {
        return Ok(());
    }
    out.truncate(before);
    match base64_simd::forgiving_decode_to_vec(base64) {
        Ok(bytes) => out.extend_from_slice(&bytes),
        Err(_) => {
            let odd = |byte: &u8| !byte.is_ascii_alphanumeric() && !b"+/= \n\r\t".contains(byte);
            return Err(match base64.iter().position(odd) {
                Some(at) => Base64Error::Character(at),
                None => Base64Error::Length,
            });
        }
    }
    Ok(())
}

impl<'de> DeserializeSeed<'de> for &mut Decoder {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Decoder {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the field chain")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(is_chain) = map.next_key_seed(IsChain)? {
            if !is_chain {
                self.ignores = true;
                map.next_value::<IgnoredAny>()?;
            } else if self.ends.is_some() {
                return Err(de::Error::custom("the field chain appears twice"));
            } else {
                map.next_value_seed(Elements(self))?;
            }
        }
        Ok(())
    }
}

/// Parser of a field name, which is `true` for `chain`. Field names are not copied.
struct IsChain;

impl<'de> DeserializeSeed<'de> for IsChain {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<bool, D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for IsChain {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name")
    }

    fn visit_str<E>(self, key: &str) -> Result<bool, E> {
        Ok(key == "chain")
    }
}

/// Parser of the array of certificates.
struct Elements<'d>(&'d mut Decoder);

impl<'de> DeserializeSeed<'de> for Elements<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Elements<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of base64 strings")
    }

    /// Refuses `"chain": null`, which some clients send, as a missing chain.
    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        let detail = "chain is null; expected an array of certificates in base64";
        Err(self.0.reject(Rejection::new(Code::MissingChain, detail)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        let mut ends = Vec::with_capacity(4);
        while let Some(end) = elements.next_element_seed(Element(self.0, ends.len()))? {
            ends.push(end);
        }
        self.0.ends = Some(ends);
        Ok(())
    }
}

/// Parser of one certificate, with its index in the chain.
struct Element<'d>(&'d mut Decoder, usize);

impl<'de> DeserializeSeed<'de> for Element<'_> {
    type Value = u32;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<u32, D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for Element<'_> {
    type Value = u32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a certificate in base64")
    }

    fn visit_str<E: de::Error>(self, base64: &str) -> Result<u32, E> {
        self.0.push(self.1, base64.as_bytes())
    }
}
