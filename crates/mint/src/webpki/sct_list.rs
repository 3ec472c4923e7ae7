use crate::{Extension, MintError, der::tag, oid, random};

/// Returns an SCT list extension (RFC 6962, section 3.3) of `count` SCTs with the format and size
/// of real SCTs. The SCTs have `leaf_index` extensions and random signatures that no key verifies.
pub(crate) fn sct_list(count: usize, timestamp_ms: u64) -> Result<Extension, MintError> {
    let mut list = Vec::with_capacity(count * 130);
    for _ in 0..count {
        let sct = sct(timestamp_ms)?;
        list.extend_from_slice(&(sct.len() as u16).to_be_bytes());
        list.extend_from_slice(&sct);
    }
    let mut value = (list.len() as u16).to_be_bytes().to_vec();
    value.extend_from_slice(&list);
    Ok(Extension::new(oid::SCT_LIST, false, |der| {
        der.put(tag::OCTET_STRING, &value);
    }))
}

/// Returns a serialized SCT (RFC 6962, section 3.2).
fn sct(timestamp_ms: u64) -> Result<Vec<u8>, MintError> {
    let mut noise = [0; 32 + 3 + 64];
    random(&mut noise)?;
    let mut sct = vec![0]; // version 1
    sct.extend_from_slice(&noise[..32]); // log id
    sct.extend_from_slice(&timestamp_ms.to_be_bytes());
    sct.extend_from_slice(&[0, 8, 0, 0, 5, 0, 0]); // leaf_index, 40 bits
    sct.extend_from_slice(&noise[32..35]);
    let signature = crate::Der::build(|der| {
        der.sequence(|der| {
            for half in noise[35..].chunks(32) {
                let mut half = half.to_vec();
                half[0] = half[0] & 0x7f | 0x40; // positive, full length
                der.integer_bytes(&half);
            }
        });
    });
    sct.extend_from_slice(&[4, 3]); // SHA-256, ECDSA
    sct.extend_from_slice(&(signature.len() as u16).to_be_bytes());
    sct.extend_from_slice(&signature);
    Ok(sct)
}
