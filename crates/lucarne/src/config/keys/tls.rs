//! Keys under `tls`.

use lucarne_settings::form::Shape;
use lucarne_settings::{Key, Table};

pub(crate) static TABLE: Table = Table::of(&[&CERTIFICATE, &KEY]);

pub(crate) static CERTIFICATE: Key<Shape> = Key::new(
    "certificate",
    Shape::Text,
    "required",
    "PEM: the certificate and its intermediates, leaf first.",
);

pub(crate) static KEY: Key<Shape> =
    Key::new("key", Shape::Text, "required", "PEM: the private key.");
