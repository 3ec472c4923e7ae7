//! Object stores that speak S3.
