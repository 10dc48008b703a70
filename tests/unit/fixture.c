#include "fixture.h"

#include "id.h"

struct ibv_qp *raw_qp(mrg_id *id)
{
    return id_of(slot_at(handle_token(id)))->raw->qp;
}

struct ibv_cq *raw_send_cq(mrg_id *id)
{
    return raw_qp(id)->send_cq;
}
