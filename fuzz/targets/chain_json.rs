//! A body that decodes has certificates that encode to the same chain again.

use base64_simd::STANDARD;
use lucarne_ct::{Chain, ChainLimits};

pub(crate) fn run(body: &[u8]) {
    let Ok(chain) = Chain::decode_json(body, &ChainLimits::default()) else {
        return;
    };
    assert_eq!(chain.iter().len(), chain.len());
    assert_eq!(chain.iter().next(), Some(chain.leaf()));

    let base64: Vec<_> = chain
        .iter()
        .map(|der| format!("\"{}\"", STANDARD.encode_to_string(der)))
        .collect();
    let again = format!("{{\"chain\":[{}]}}", base64.join(","));
    let limits = ChainLimits {
        max_body: usize::MAX,
    };
    let again = Chain::decode_json(again.as_bytes(), &limits).expect("a plain body");
    assert!(again.iter().eq(chain.iter()));
}
