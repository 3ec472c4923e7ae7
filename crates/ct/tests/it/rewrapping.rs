//! Other encodings around a signed part: every change that is possible without the authority's key.

#![allow(dead_code)] // not every test uses everything

use lucarne_ct::Certificate;

/// The signed part of a certificate in another encoding than its authority's.
pub(crate) struct Rewrapped {
    /// Description of the change.
    pub(crate) how: &'static str,
    /// The code with which a log refuses this encoding.
    pub(crate) code: &'static str,
    pub(crate) der: Vec<u8>,
}

/// Returns every way to rewrite the bytes around the signed part of `der`, a certificate in DER.
/// The signature stays valid, or equals a valid one in another encoding.
pub(crate) fn rewrappings(der: &[u8]) -> Vec<Rewrapped> {
    let parts = Parts::of(der);
    let mut all = parts.around();
    all.extend(parts.of_the_algorithm());
    all.extend(parts.of_the_bit_string());
    all.extend(parts.of_the_signature());
    all.retain(|rewrapped| rewrapped.der != der);
    all
}

/// Returns `der` with another signature value.
pub(crate) fn with_signature(der: &[u8], signature: &[u8]) -> Vec<u8> {
    Parts::of(der).signed(signature)
}

/// The choices in the encoding around a signed part.
#[derive(Clone, Debug)]
pub(crate) struct Wrapping {
    /// Number of superfluous octets in the lengths of the OID, the algorithm, the BIT STRING and
    /// the whole.
    pub(crate) octets: [usize; 4],
    /// Bytes after the parameters, the signature value, the BIT STRING and the whole.
    pub(crate) after: [Vec<u8>; 4],
    /// Number of unused bits of the BIT STRING.
    pub(crate) unused: u8,
}

/// Returns the signed part of `der` in that encoding.
pub(crate) fn wrapped(der: &[u8], wrapping: &Wrapping) -> Vec<u8> {
    let parts = Parts::of(der);
    let element = |place: usize, tag, value: &[&[u8]]| {
        let value = value.concat();
        in_octets(tag, &value, fewest(value.len()) + wrapping.octets[place])
    };
    let [parameters, value, bits, all] = &wrapping.after;
    let oid = element(0, 6, &[parts.oid]);
    let algorithm = element(1, 0x30, &[&oid, parts.parameters, parameters]);
    let bit_string = element(2, 3, &[&[wrapping.unused], parts.signature, value]);
    let mut certificate = element(3, 0x30, &[parts.tbs, &algorithm, &bit_string, bits]);
    certificate.extend_from_slice(all);
    certificate
}

/// Returns a certificate of these three parts: TBSCertificate, AlgorithmIdentifier, signature
/// value.
pub(crate) fn certificate(tbs: &[u8], algorithm: &[u8], signature: &[u8]) -> Vec<u8> {
    let bits = [&[0], signature].concat();
    tlv(0x30, &[tbs, algorithm, &tlv(3, &bits)].concat())
}

/// Returns the two integers of an ECDSA signature, without leading zeros.
pub(crate) fn ecdsa_integers(signature: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let body = content(signature);
    let (r, s) = body.split_at(element(body));
    let integer = |tlv| -> Vec<u8> {
        let zeros = content(tlv).iter().take_while(|byte| **byte == 0);
        content(tlv)[zeros.count()..].to_vec()
    };
    (integer(r), integer(s))
}

/// Returns an ECDSA signature of two positive integers in DER.
pub(crate) fn ecdsa_signature(r: &[u8], s: &[u8]) -> Vec<u8> {
    let positive = |integer: &[u8]| match integer.first() {
        Some(0..0x80) => tlv(2, integer),
        _ => tlv(2, &[&[0], integer].concat()),
    };
    tlv(0x30, &[positive(r), positive(s)].concat())
}

/// Returns a DER element.
pub(crate) fn tlv(tag: u8, value: &[u8]) -> Vec<u8> {
    in_octets(tag, value, fewest(value.len()))
}

/// Returns an element with a leading zero in its length.
fn long(tag: u8, value: &[u8]) -> Vec<u8> {
    in_octets(tag, value, fewest(value.len()) + 1)
}

/// Returns the minimum number of octets after the first octet of a length.
fn fewest(length: usize) -> usize {
    match length {
        0..0x80 => 0,
        0x80..0x100 => 1,
        0x100..0x1_0000 => 2,
        _ => 3,
    }
}

fn in_octets(tag: u8, value: &[u8], octets: usize) -> Vec<u8> {
    let length = (value.len() as u64).to_be_bytes();
    let header = match octets {
        0 => vec![tag, value.len() as u8],
        _ => [
            &[tag, 0x80 | octets as u8],
            &length[length.len() - octets..],
        ]
        .concat(),
    };
    [&header, value].concat()
}

/// Returns the length of the first element, including its header.
fn element(der: &[u8]) -> usize {
    let octets = match der[1] {
        short @ 0..0x80 => return 2 + usize::from(short),
        long => usize::from(long & 0x7f),
    };
    let length = der[2..2 + octets].iter();
    2 + octets + length.fold(0, |length, octet| length << 8 | usize::from(*octet))
}

fn content(der: &[u8]) -> &[u8] {
    let header = match der[1] {
        0..0x80 => 2,
        long => 2 + usize::from(long & 0x7f),
    };
    &der[header..element(der)]
}

struct Parts<'a> {
    tbs: &'a [u8],
    algorithm: &'a [u8],
    oid: &'a [u8],
    parameters: &'a [u8],
    signature: &'a [u8],
}

const NULL: &[u8] = &[5, 0];
const FORM: &str = "not_canonical";
const MISMATCH: &str = "algorithm_mismatch";
const SIGNATURE: &str = "invalid_signature";
const FRAME: &str = "invalid_certificate";

impl<'a> Parts<'a> {
    fn of(der: &'a [u8]) -> Self {
        let certificate = Certificate::parse(der).unwrap();
        let algorithm = certificate.algorithm();
        let fields = content(algorithm);
        let (oid, parameters) = fields.split_at(element(fields));
        Self {
            tbs: certificate.tbs(),
            algorithm,
            oid: content(oid),
            parameters,
            signature: certificate.signature(),
        }
    }

    fn signed(&self, signature: &[u8]) -> Vec<u8> {
        certificate(self.tbs, self.algorithm, signature)
    }

    fn identified(&self, algorithm: &[u8]) -> Vec<u8> {
        certificate(self.tbs, algorithm, self.signature)
    }

    fn with_bit_string(&self, bit_string: &[u8]) -> Vec<u8> {
        tlv(0x30, &[self.tbs, self.algorithm, bit_string].concat())
    }

    fn bits(&self, unused: u8) -> Vec<u8> {
        [&[unused], self.signature].concat()
    }

    fn around(&self) -> Vec<Rewrapped> {
        let bit_string = tlv(3, &self.bits(0));
        let parts = [self.tbs, self.algorithm, &bit_string].concat();
        let more = [&parts, &tlv(4, b"text")[..]].concat();
        let four = in_octets(0x30, &parts, 4);
        let forms = [
            ("a zero before the length", FORM, long(0x30, &parts)),
            ("a length of four octets", FORM, four),
            ("text after the signature", FRAME, tlv(0x30, &more)),
            (
                "a byte after it",
                FRAME,
                [&tlv(0x30, &parts)[..], &[0]].concat(),
            ),
        ];
        named(forms)
    }

    fn of_the_algorithm(&self) -> Vec<Rewrapped> {
        let oid = tlv(6, self.oid);
        let with = |parameters: &[u8]| tlv(0x30, &[&oid, parameters].concat());
        let padded_oid = tlv(6, &[&[0x80], self.oid].concat());
        let mut forms = vec![
            (
                "a long length of the algorithm",
                FORM,
                long(0x30, &[&oid, self.parameters].concat()),
            ),
            (
                "a long length of the OID",
                FORM,
                tlv(0x30, &[&long(6, self.oid), self.parameters].concat()),
            ),
            (
                "a padded OID",
                MISMATCH,
                tlv(0x30, &[&padded_oid, self.parameters].concat()),
            ),
            (
                "text after the parameters",
                match self.parameters {
                    [] => MISMATCH,
                    _ => FORM,
                },
                with(&[self.parameters, &tlv(4, b"text")].concat()),
            ),
            (
                "a NULL too many",
                match self.parameters {
                    [] => MISMATCH,
                    _ => FORM,
                },
                with(&[self.parameters, NULL].concat()),
            ),
            ("a NULL of 72 kB", FORM, with(&tlv(5, &[b'x'; 72_000]))),
            ("a NULL of four bytes", FORM, with(&tlv(5, b"text"))),
            ("a long length of NULL", FORM, with(&long(5, &[]))),
            (
                "other parameters",
                MISMATCH,
                with(&tlv(0x30, &tlv(4, b"text"))),
            ),
        ];
        if !self.parameters.is_empty() {
            forms.push(("no parameters", MISMATCH, with(&[])));
        }
        if !matches!(self.parameters, [] | NULL) {
            let (tag, inside) = (self.parameters[0], content(self.parameters));
            let parameters = long(tag, inside);
            forms.push(("a long length of parameters", MISMATCH, with(&parameters)));
            forms.push(("NULL for the parameters", MISMATCH, with(NULL)));
        }
        named(
            forms
                .into_iter()
                .map(|(how, code, algorithm)| (how, code, self.identified(&algorithm))),
        )
    }

    fn of_the_bit_string(&self) -> Vec<Rewrapped> {
        let forms = [
            ("a long length of the BIT STRING", long(3, &self.bits(0))),
            ("one unused bit", tlv(3, &self.bits(1))),
            ("seven unused bits", tlv(3, &self.bits(7))),
            ("255 unused bits", tlv(3, &self.bits(255))),
            ("no signature", tlv(3, &[0])),
            ("no octet of unused bits", tlv(3, &[])),
        ];
        named(
            forms
                .into_iter()
                .map(|(how, bit_string)| (how, FORM, self.with_bit_string(&bit_string))),
        )
    }

    /// Returns other forms of the signature value: longer and shorter, and for ECDSA every encoding
    /// of its two DER integers.
    fn of_the_signature(&self) -> Vec<Rewrapped> {
        let signature = self.signature;
        let mut forms = vec![
            (
                "a byte after the signature value",
                [signature, &[0]].concat(),
            ),
            ("a zero before it", [&[0], signature].concat()),
            ("a byte too few", signature[..signature.len() - 1].to_vec()),
        ];
        let ecdsa = self.oid.starts_with(&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4]);
        if ecdsa {
            let (r, s) = ecdsa_integers(signature);
            let body = content(signature);
            let (first, second) = body.split_at(element(body));
            let padded = |integer| tlv(2, &[&[0], content(integer)].concat());
            forms.extend([
                ("a long length of the value", long(0x30, body)),
                (
                    "a long length of r",
                    tlv(0x30, &[&long(2, content(first)), second].concat()),
                ),
                (
                    "a long length of s",
                    tlv(0x30, &[first, &long(2, content(second))].concat()),
                ),
                (
                    "a zero before r",
                    tlv(0x30, &[&padded(first), second].concat()),
                ),
                (
                    "a zero before s",
                    tlv(0x30, &[first, &padded(second)].concat()),
                ),
                ("r as it comes", tlv(0x30, &[&tlv(2, &r), second].concat())),
                ("s as it comes", tlv(0x30, &[first, &tlv(2, &s)].concat())),
                (
                    "text after s",
                    tlv(0x30, &[body, &tlv(4, b"text")].concat()),
                ),
                ("s is zero", ecdsa_signature(&r, &[0])),
                ("r is zero", ecdsa_signature(&[0], &s)),
            ]);
        }
        let sizes = |value: &Vec<u8>| value != signature;
        named(
            forms
                .into_iter()
                .filter(|(_, value)| sizes(value))
                .map(|(how, value)| (how, SIGNATURE, self.signed(&value))),
        )
    }
}

fn named(forms: impl IntoIterator<Item = (&'static str, &'static str, Vec<u8>)>) -> Vec<Rewrapped> {
    let forms = forms.into_iter();
    forms
        .map(|(how, code, der)| Rewrapped { how, code, der })
        .collect()
}
