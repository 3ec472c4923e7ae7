//! SCTs in a stapled OCSP response (RFC 6962 section 3.3, RFC 6960 section 4.2.1).
//!
//! The response's own signature is not verified: what an SCT says stands on the log's.

use crate::der::{DerError, Reader, Tlv, tag};
use crate::oid;

/// ENUMERATED, which only OCSP has here.
const ENUMERATED: u8 = 0x0a;

/// The first SignedCertificateTimestampList in an OCSPResponse, for
/// [`SctList::parse`](crate::SctList::parse). `None`: a response without one, or one that is
/// not successful.
///
/// # Errors
/// The first field that is not where RFC 6960 has it.
pub fn sct_list_of_ocsp(response: &[u8]) -> Result<Option<&[u8]>, DerError> {
    let mut outer = Reader::new(response);
    let mut fields = outer.expect(tag::SEQUENCE, "OCSPResponse")?.reader();
    fields.expect(ENUMERATED, "responseStatus")?;
    let Some(bytes) = fields.optional(tag::context(0), "responseBytes")? else {
        return Ok(None);
    };
    let mut bytes = bytes
        .reader()
        .expect(tag::SEQUENCE, "ResponseBytes")?
        .reader();
    bytes.expect(tag::OID, "responseType")?;
    let basic = bytes.expect(tag::OCTET_STRING, "response")?;
    let mut basic = basic
        .reader()
        .expect(tag::SEQUENCE, "BasicOCSPResponse")?
        .reader();
    let mut data = basic.expect(tag::SEQUENCE, "tbsResponseData")?.reader();
    data.optional(tag::context(0), "version")?;
    data.any("responderID")?;
    data.expect(tag::GENERALIZED_TIME, "producedAt")?;
    let mut responses = data.expect(tag::SEQUENCE, "responses")?.reader();
    while !responses.is_empty() {
        let single = responses.expect(tag::SEQUENCE, "SingleResponse")?;
        if let Some(list) = sct_list_of_single(single)? {
            return Ok(Some(list));
        }
    }
    Ok(None)
}

fn sct_list_of_single(single: Tlv<'_>) -> Result<Option<&[u8]>, DerError> {
    let mut fields = single.reader();
    fields.expect(tag::SEQUENCE, "certID")?;
    fields.any("certStatus")?;
    fields.expect(tag::GENERALIZED_TIME, "thisUpdate")?;
    fields.optional(tag::context(0), "nextUpdate")?;
    let Some(wrapper) = fields.optional(tag::context(1), "singleExtensions")? else {
        return Ok(None);
    };
    let mut extensions = wrapper
        .reader()
        .expect(tag::SEQUENCE, "Extensions")?
        .reader();
    while !extensions.is_empty() {
        let mut extension = extensions.expect(tag::SEQUENCE, "Extension")?.reader();
        let named = extension.expect(tag::OID, "extnID")?.value == oid::OCSP_SCT_LIST;
        extension.optional(tag::BOOLEAN, "critical")?;
        let value = extension.expect(tag::OCTET_STRING, "extnValue")?;
        if named {
            let list = value
                .reader()
                .expect(tag::OCTET_STRING, "SignedCertificateTimestampList")?;
            return Ok(Some(list.value));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lucarne_mint::Der;

    const TIME: &[u8] = b"20260701000000Z";

    /// An OCSPResponse as responders make it: version left out, key hash, good, these
    /// extensions of the one SingleResponse.
    fn response(extensions: Option<&dyn Fn(&mut Der)>) -> Vec<u8> {
        let single = |der: &mut Der| {
            der.sequence(|der| der.put(tag::OCTET_STRING, b"certID"));
            der.put(0x80, &[]);
            der.put(tag::GENERALIZED_TIME, TIME);
            let next = Der::build(|der| der.put(tag::GENERALIZED_TIME, TIME));
            der.put(tag::context(0), &next);
            if let Some(extensions) = extensions {
                let list = Der::build(|der| der.sequence(|der| extensions(der)));
                der.put(tag::context(1), &list);
            }
        };
        let basic = Der::build(|der| {
            der.sequence(|der| {
                der.sequence(|der| {
                    der.put(tag::context(2), b"\x04\x01k");
                    der.put(tag::GENERALIZED_TIME, TIME);
                    der.sequence(|der| der.sequence(single));
                });
            });
        });
        let bytes = Der::build(|der| {
            der.sequence(|der| {
                der.put(tag::OID, &[0x2b, 6, 1, 5, 5, 7, 48, 1, 1]);
                der.put(tag::OCTET_STRING, &basic);
            });
        });
        Der::build(|der| {
            der.sequence(|der| {
                der.put(ENUMERATED, &[0]);
                der.put(tag::context(0), &bytes);
            });
        })
    }

    fn extension(der: &mut Der, oid: &[u8], value: &[u8]) {
        der.sequence(|der| {
            der.put(tag::OID, oid);
            der.put(tag::OCTET_STRING, value);
        });
    }

    #[test]
    fn the_list_is_found_among_others() {
        let found = response(Some(&|der: &mut Der| {
            extension(der, &[0x2b, 1], b"other");
            let list = Der::build(|der| der.put(tag::OCTET_STRING, b"the list"));
            extension(der, oid::OCSP_SCT_LIST, &list);
        }));
        assert_eq!(sct_list_of_ocsp(&found).unwrap(), Some(&b"the list"[..]));
        for without in [
            response(None),
            response(Some(&|der: &mut Der| extension(der, &[0x2b, 1], b"other"))),
            vec![0x30, 3, ENUMERATED, 1, 6], // unauthorized
        ] {
            assert_eq!(sct_list_of_ocsp(&without).unwrap(), None);
        }
        for length in 0..found.len() {
            assert!(
                sct_list_of_ocsp(&found[..length]).is_err(),
                "{length} bytes"
            );
        }
    }
}
