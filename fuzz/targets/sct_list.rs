//! A list of SCTs that parses has SCTs that encode to the same bytes.

use lucarne_ct::{Sct, SctList, encode_sct_list};

pub(crate) fn run(bytes: &[u8]) {
    let Ok(list) = SctList::parse(bytes) else {
        return;
    };
    let scts: Result<Vec<Sct>, _> = list.iter().collect();
    if let Ok(scts) = scts {
        assert_eq!(encode_sct_list(&scts).expect("its own list"), bytes);
    }
}
