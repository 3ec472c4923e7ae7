//! Keys under `tls`.

use lucarne_settings::form::Shape;
use lucarne_settings::section;

section! {
    /// PEM: the certificate and its intermediates, leaf first.
    certificate: Shape = Shape::Text, "required";

    /// PEM: the private key.
    key: Shape = Shape::Text, "required";
}
