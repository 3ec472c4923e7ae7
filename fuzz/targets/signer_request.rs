//! A request to the signer parses in one form only, and the signer decides every request.

use crate::HEADS;
use lucarne_signer::wire::{
    Request, Wish, decode_response, decode_signatures, encode_response, encode_signatures,
};
use lucarne_signer::{Guard, Head};

pub(crate) fn run(frame: &[u8]) {
    if let Ok((status, rest)) = decode_response(frame) {
        assert_eq!(encode_response(status, rest)[4..], *frame);
        if let Ok(signatures) = decode_signatures(rest) {
            assert_eq!(encode_signatures(&signatures), rest);
        }
    }
    let Ok(request) = Request::decode(frame) else {
        return;
    };
    assert_eq!(request.encode()[4..], *frame);
    let Wish::Head { head, proof } = request.wish else {
        return;
    };
    for (size, root, timestamp_ms) in HEADS {
        let signed = Head {
            size,
            root,
            timestamp_ms,
        };
        let guard = Guard::new(Some(signed));
        if guard.may_sign(head, &proof, u64::MAX).is_ok() {
            assert!(head.size >= size && head.timestamp_ms > timestamp_ms);
            assert!(head.size > size || head.root == root);
        }
    }
}
