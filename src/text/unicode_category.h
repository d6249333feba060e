// General categories (Unicode 16), as unicode_flags has them in its low bits.
#ifndef BRAID_TEXT_UNICODE_CATEGORY_H
#define BRAID_TEXT_UNICODE_CATEGORY_H

enum unicode_category {
    UNICODE_CN,
    UNICODE_CC,
    UNICODE_CF,
    UNICODE_CO,
    UNICODE_CS,
    UNICODE_LL,
    UNICODE_LM,
    UNICODE_LO,
    UNICODE_LT,
    UNICODE_LU,
    UNICODE_MC,
    UNICODE_ME,
    UNICODE_MN,
    UNICODE_ND,
    UNICODE_NL,
    UNICODE_NO,
    UNICODE_PC,
    UNICODE_PD,
    UNICODE_PE,
    UNICODE_PF,
    UNICODE_PI,
    UNICODE_PO,
    UNICODE_PS,
    UNICODE_SC,
    UNICODE_SK,
    UNICODE_SM,
    UNICODE_SO,
    UNICODE_ZL,
    UNICODE_ZP,
    UNICODE_ZS
};

#endif
