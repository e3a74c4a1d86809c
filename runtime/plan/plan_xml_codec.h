/* The spellings that the fields of plan.xml use. Private to plan_xml*.c */
#ifndef PLAN_XML_CODEC_H
#define PLAN_XML_CODEC_H

#include "plan_xml.h"

extern const xml_codec xml_format; /* the constant PLAN_XML_FORMAT */
extern const xml_codec xml_string; /* const char * */
extern const xml_codec xml_u32;
extern const xml_codec xml_u64;
extern const xml_codec xml_index;      /* uint32_t; "none" is WAFER_NONE */
extern const xml_codec xml_flag;       /* bool: true, false */
extern const xml_codec xml_hex64;      /* uint64_t as 16 hexadecimal digits */
extern const xml_codec xml_u32s;       /* const uint32_t * and its count */
extern const xml_codec xml_u64s;       /* const uint64_t * and its count */
extern const xml_codec xml_operands;   /* uint32_t[WAFER_OP_MAX_OPERANDS] and its count */
extern const xml_codec xml_parts;      /* uint32_t[field->count], trailing ones left out */
extern const xml_codec xml_type;       /* wafer_type: 1x3x48x320xf32 */
extern const xml_codec xml_rect;       /* wafer_rect: x y width height */
extern const xml_codec xml_holding;    /* edge, memoryx, wafer X Y W H rows ... cols ... */
extern const xml_codec xml_route;      /* const wafer_route_segment *: x0 y0 x1 y1, ... */
extern const xml_codec xml_actions;    /* const wafer_action *: s0 k0 s1 */
extern const xml_codec xml_value_type; /* wafer_type or none */
extern const xml_codec xml_plain;      /* const char *, without any spelling */
extern const xml_codec xml_indexes;    /* const uint32_t * and its count; "none" is WAFER_NONE */
extern const xml_codec xml_value_kind, xml_host_op, xml_host_kind;
extern const xml_codec xml_owner, xml_mode, xml_dtype, xml_family, xml_op, xml_bound, xml_step,
    xml_launch_kind, xml_optimizer;

#endif
