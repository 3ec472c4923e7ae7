//! Keys of entries in lists.

use lucarne_settings::form::Shape;
use lucarne_settings::section;

/// Keys of an entry of `rules`.
pub(crate) mod rule {
    use super::*;

    section! {
        /// pattern of the hosts
        host: Shape = Shape::Text, "all hosts";

        /// `intercept` or `tunnel`
        action: Shape = Shape::Text, "required";
    }
}

/// Keys of an entry of `upstream.proxy`.
pub(crate) mod through {
    use super::*;

    section! {
        /// pattern of the hosts
        host: Shape = Shape::Text, "all hosts";

        /// URL of the proxy: `http://` or `https://`, `[user@]host:port`; or `direct`
        url: Shape = Shape::Text, "required";

        /// source of the password of the user in the URL
        password: Shape = Shape::Secret, "none";
    }
}

/// Keys of an entry of `certificates` and of `upstream.certificates`.
pub(crate) mod pair {
    use super::*;

    section! {
        /// pattern of the hosts
        host: Shape = Shape::Text, "all hosts";

        /// PEM file of the certificate and its intermediates
        certificate: Shape = Shape::Text, "required";

        /// PEM file of the key
        key: Shape = Shape::Text, "`certificate`";
    }
}
